"""Lines and pairs from text files: line n of one file translates line n of the other, or columns of one."""

import glob
import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

from keras_transformer._arguments import check_memory
from keras_transformer._files import as_path
from keras_transformer.errors import InputError
from keras_transformer.types import Pair

FilePath: TypeAlias = str | os.PathLike[str]
Files: TypeAlias = FilePath | Sequence[FilePath]
"""A file, a pattern such as `train-*.de.gz`, or several of them: the shards of one text."""

_MAX_LINE_BYTES = 2**24
COLUMNS = (".tsv", ".tsv.gz")
_Item = TypeVar("_Item", str, Pair)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: str | os.PathLike[str] | BinaryIO) -> list[str]:
    r"""Read the lines of a UTF-8 file.

    Only `\n` and `\r\n` end a line. `str.splitlines` also cuts at characters such as
    U+2028, which stand inside the sentences of web corpora and would shift all that follow.

    Args:
        path: the file, plain or ending in `.gz`; or an open one of bytes, such as `sys.stdin.buffer`.

    Returns:
        Its lines without their ends, at least one unless the file was open.

    Raises:
        InputError: the file is missing, a directory, empty, damaged gzip or not UTF-8 (with line and byte),
            it has a line of more than 16 MiB, or it is more than the machine's memory holds.
    """
    if isinstance(path, str | os.PathLike):
        return _bounded(_iterate_lines(as_path(path)), path)
    name = getattr(path, "name", "standard input")
    return _bounded(_decoded_lines(path.readline, name), name)


def _bounded(items: Iterable[_Item], origin: object) -> list[_Item]:
    """Return texts or pairs of them as a list; raise InputError where a pipe or a device does not end."""
    kept, num_bytes = [], 0
    for item in items:
        kept.append(item)
        num_bytes += sum(map(sys.getsizeof, (item,) if isinstance(item, str) else item))
        if len(kept) % 10_000 == 0:
            check_memory(2 * num_bytes, input=origin)
    return kept


class ParallelText:
    """The pairs of files, read line by line in each iteration; for more pairs than memory holds.

    Args:
        source: file with one source text a line, plain or ending in `.gz`. Or several, as a list or as a
            pattern, whose files are taken in the order of their names.
        target: file with the translation of each line of `source`, as many as there are of `source`. If
            None, `source` is a `.tsv` or `.tsv.gz` file of two columns, a pattern, or a directory of them.

    Raises:
        InputError: a file is missing, a pattern matches none, or there are not as many of both; in the
            iteration, one is empty, damaged or not UTF-8, or has more lines.

    Example:
        ```python
        pairs = kt.data.ParallelText("corpus/train-*.en.gz", "corpus/train-*.de.gz")
        dataset = kt.data.translation_dataset(pairs, tokenizer, tokenizer, cache="token_ids")
        ```
    """

    def __init__(self, source: Files, target: Files | None = None) -> None:
        self._shards = _find_shards(source, target)
        for path in self.files:
            if not path.is_file():
                reason = "no regular file to read in each epoch" if path.exists() else "no such file"
                raise InputError(f"Cannot read {path}: {reason}.")

    @property
    def files(self) -> list[Path]:
        """All files, in order."""
        return [path for shard in self._shards for path in shard]

    def __iter__(self) -> Iterator[Pair]:
        return _iterate_shards(self._shards)


def _find_shards(source: Files, target: Files | None = None) -> list[tuple[Path, ...]]:
    """Return the files of each shard: a source and its target, or one of columns."""
    if target is None:
        return [(path,) for path in _find_files(source, of_columns=True)]
    sources, targets = _find_files(source), _find_files(target)
    if len(sources) != len(targets):
        raise InputError(
            "There must be as many files of sources as of targets. "
            f"Received: {len(sources)} of {source}, {len(targets)} of {target}."
        )
    return list(zip(sources, targets, strict=True))


def _find_files(files: Files, *, of_columns: bool = False) -> list[Path]:
    found = []
    for name in [files] if isinstance(files, str | os.PathLike) else files:
        path = as_path(name)
        if of_columns and path.is_dir():
            paths = [inside for inside in path.iterdir() if inside.name.endswith(COLUMNS)]
        elif of_columns and not path.name.endswith(COLUMNS):
            raise InputError(f"A file of pairs must end in {' or '.join(COLUMNS)}. Received: {str(path)!r}.")
        elif glob.has_magic(path.name) and not path.exists():
            paths = list(path.parent.glob(path.name))
        else:
            paths = [path]
        if not paths:
            kind = f"a directory of {' or '.join(COLUMNS)} files" if path.is_dir() else "a pattern of files"
            raise InputError(f"There must be {kind}. Received: {str(path)!r}, without any.")
        found += sorted(paths)
    return found


def _iterate_shards(shards: list[tuple[Path, ...]], *, further_targets: bool = False) -> Iterator[Pair]:
    for paths in shards:
        if len(paths) == 1:
            yield from _iterate_columns(paths[0], further_targets=further_targets)
        else:
            yield from _iterate_parallel(*paths)


def _iterate_parallel(source: Path, target: Path) -> Iterator[Pair]:
    """Yield the pairs of two files; raise InputError at the end if one has more lines."""
    source_lines, target_lines = _iterate_lines(source), _iterate_lines(target)
    for number, (source_line, target_line) in enumerate(zip_longest(source_lines, target_lines)):
        if source_line is None or target_line is None:
            num_sources = number + (source_line is not None) + sum(1 for _ in source_lines)
            num_targets = number + (target_line is not None) + sum(1 for _ in target_lines)
            raise InputError(
                "Parallel files must have the same number of lines. "
                f"Received: {num_sources} in {source}, {num_targets} in {target}."
            )
        yield source_line, target_line


def _iterate_columns(path: Path, *, further_targets: bool) -> Iterator[Pair]:
    """Yield the first two columns of a file, and the first with each further one; skip blank lines."""
    for number, line in enumerate(_iterate_lines(path), start=1):
        # A tab always ends a column: there is no quoting and no header line.
        source, *targets = line.split("\t")
        if targets:
            yield from ((source, target) for target in (targets if further_targets else targets[:1]))
        elif line.strip():
            raise InputError(f"{path}:{number}: needs 2 columns separated by tabs. Received: 1.")


def _iterate_lines(path: Path) -> Iterator[str]:
    is_empty = True
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for line in _decoded_lines(file.readline, path):
                is_empty = False
                yield line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or f"damaged gzip data ({error})"
        raise InputError(f"Cannot read {path}: {reason}.") from error
    if is_empty:
        raise InputError(f"Cannot read {path}: the file is empty.")


def _decoded_lines(readline: Callable[[int], bytes], path: object) -> Iterator[str]:
    """Decode lines; count lines and bytes from 1 as editors do."""
    # Not by iteration: a device such as /dev/zero is one line without an end.
    lines = iter(lambda: readline(_MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > _MAX_LINE_BYTES:
            raise InputError(f"{path}:{number}: a line must have at most {_MAX_LINE_BYTES:,} bytes.")
        content = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        try:
            if content:
                yield content.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            place, byte = f"{path}:{number}:{error.start + 1}", content[error.start]
            raise InputError(f"{place}: not valid UTF-8. Received: byte 0x{byte:02x}.") from error
