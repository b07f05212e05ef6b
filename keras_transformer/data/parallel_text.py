"""Read parallel text: line n of one file translates line n of another, or one file holds pairs."""

import glob
import itertools
import logging
import os
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from keras_transformer._files import Checksums, as_path
from keras_transformer.data.formats import _FORMATS, _is_of_pairs, _PairsFile
from keras_transformer.data.text_files import FilePath, Files, _iterate_texts
from keras_transformer.errors import InputError
from keras_transformer.types import Pair

ENDINGS = f"{', '.join(_FORMATS)}, or one of these and .gz"
# The formats that are read from a directory; other files may be documentation.
_DIRECTORY_ENDINGS = (".tsv", ".csv", ".jsonl", ".tmx")
_SAMPLE_SIZE = 1000
_LONG_TEXT = 100_000
_MIN_EQUAL_PAIRS = 10
_TAG_LINE = re.compile(r"\s*<[a-z/!?][^<>]*>.*(?<=>)\s*", re.I)
_ESCAPED = re.compile("&(apos|quot|#91|#93|#124);")

_LOGGER = logging.getLogger(__name__)


class ParallelText:
    """Sentence pairs, read from files line by line in each iteration, for corpora larger than memory.

    Args:
        source: File with one source text per line, plain or `.gz`. Several files may be passed as a list, or
            as a pattern, whose files are sorted by name.
        target: File with the translation of each source line; as many files as `source`. Defaults to None:
            `source` is then a file of pairs as for `read_pairs`, optionally with column names
            (`pairs.csv#en,de`), a pattern, or a directory of such files.

    Raises:
        InputError: If a file is missing, a pattern matches no file, or the numbers of files differ. In the
            iteration: if a file is empty, damaged or not UTF-8, the numbers of lines differ, or columns are
            ambiguous.

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
        return [path for shard in self._shards for path in shard.files]

    @property
    def columns(self) -> list[tuple[str, str] | None]:
        """The requested columns of each file of pairs, or None."""
        return [shard.columns for shard in self._shards]

    def __iter__(self) -> Iterator[Pair]:
        for shard in self._shards:
            yield from shard.pairs()

    def fingerprint(self) -> str:
        """Return a checksum of the files, and of what is read of them."""
        files = [[Checksums.of(path) for path in shard.files] for shard in self._shards]
        return Checksums.of_values({"files": files, "columns": self.columns})


class _TwoFiles:
    """Pairs of two files, matched line by line."""

    def __init__(self, source: Path, target: Path) -> None:
        self.source, self.target = source, target
        self.files = [source, target]
        for path in self.files:
            if _is_of_pairs(path.name) and not path.name.removesuffix(".gz").endswith(".txt"):
                _LOGGER.warning(
                    "%s is read as lines of text; as a table or JSON it is one file of pairs.", path
                )

    def pairs(self, *, further_targets: bool = False) -> Iterator[Pair]:
        """Yield the pairs; at the end, raise InputError if one file has more lines."""
        sources, targets = _iterate_texts(self.source), _iterate_texts(self.target)
        for number, (source, target) in enumerate(zip_longest(sources, targets)):
            if source is None or target is None:
                num_sources = number + (source is not None) + sum(1 for _ in sources)
                num_targets = number + (target is not None) + sum(1 for _ in targets)
                raise InputError(
                    "Parallel files must have the same number of lines. "
                    f"Received: {num_sources} in {self.source}, {num_targets} in {self.target}."
                )
            yield source, target


class _Shard:
    """Pairs of one file or two files. Suspicious content of the first pairs is logged once."""

    def __init__(self, content: _PairsFile | _TwoFiles) -> None:
        self._content, self._is_checked = content, False
        self.files = content.files

    @property
    def columns(self) -> tuple[str, str] | None:
        return self._content.columns if isinstance(self._content, _PairsFile) else None

    def pairs(self, *, further_targets: bool = False) -> Iterator[Pair]:
        pairs = self._content.pairs(further_targets=further_targets)
        head: list[Pair] = []
        if not self._is_checked:
            for pair in itertools.islice(pairs, _SAMPLE_SIZE):
                head.append(pair)
                if len(pair[0]) > _LONG_TEXT:
                    break
            self._warn_of_mistakes(head)
            self._is_checked = True
        yield from head
        yield from pairs

    def _warn_of_mistakes(self, pairs: list[Pair]) -> None:
        """Warn about what is usually a mistake but may be intended."""
        name = " and ".join(map(str, self.files))
        is_one = len(self.files) == 2 and _is_same_file(*self.files)
        if (is_one or len(pairs) >= _MIN_EQUAL_PAIRS) and all(source == target for source, target in pairs):
            _LOGGER.warning(
                "%s: %s has the same text on both sides. Is one file named twice?",
                *(name, f"each of the first {len(pairs)} pairs"),
            )
        num_tags = sum(bool(_TAG_LINE.fullmatch(source)) for source, _ in pairs)
        if num_tags > max(2, len(pairs) / 20):
            _LOGGER.warning(
                "%s: %d of the first %d sources are tags, read as texts.", name, num_tags, len(pairs)
            )
        if num_escaped := sum(bool(_ESCAPED.search(f"{source} {target}")) for source, target in pairs):
            _LOGGER.warning(
                "%s: %d of the first %d pairs have entities such as &apos;, which Moses' tokenizer writes. "
                "Texts to translate need them too; deescape-special-chars.perl of Moses removes them.",
                *(name, num_escaped, len(pairs)),
            )


def _is_same_file(source: Path, target: Path) -> bool:
    return source.exists() and target.exists() and source.samefile(target)


def _find_shards(source: Files, target: Files | None = None) -> list[_Shard]:
    """Return the shards, each a source and target file, or one file of pairs."""
    if target is None:
        return [_Shard(_PairsFile(path, columns)) for path, columns in _find_tables(source)]
    sources, targets = (
        [path for name in _as_list(files) for path in _matching_files(as_path(name))]
        for files in (source, target)
    )
    if len(sources) != len(targets):
        raise InputError(
            "There must be as many files of sources as of targets. "
            f"Received: {len(sources)} of {source}, {len(targets)} of {target}."
        )
    return [_Shard(_TwoFiles(*paths)) for paths in zip(sources, targets, strict=True)]


def _as_list(files: Files) -> Sequence[FilePath]:
    return [files] if isinstance(files, str | os.PathLike) else files


def _matching_files(path: Path) -> list[Path]:
    if not glob.has_magic(path.name) or path.exists():
        return [path]
    if found := sorted(path.parent.glob(path.name)):
        return found
    raise InputError(f"A pattern must match at least one file. Received: {str(path)!r}, which matches none.")


def _find_tables(
    files: Files, form: str = "SOURCE,TARGET", content: str = "pairs"
) -> Iterator[tuple[Path, tuple[str, str] | None]]:
    for name in _as_list(files):
        path, columns = split_columns(name, form)
        if path.is_dir():
            paths = _tables_of(path)
        elif _is_of_pairs(path.name):
            paths = _matching_files(path)
        else:
            raise InputError(f"A file of {content} must end in {ENDINGS}. Received: {str(path)!r}.")
        yield from ((each, columns) for each in paths)


def _tables_in(directory: Path) -> list[Path]:
    """Return the tables of a directory in one format, because the other files may hold the same pairs."""
    for ending in _DIRECTORY_ENDINGS:
        paths = [path for path in directory.iterdir() if path.name.lower().endswith((ending, f"{ending}.gz"))]
        if paths:
            return sorted(paths)
    return []


def _tables_of(directory: Path) -> list[Path]:
    if paths := _tables_in(directory):
        return paths
    endings = ", ".join(_DIRECTORY_ENDINGS)
    raise InputError(
        f"A directory must contain files that end in {endings}, each plain or .gz. "
        f"Received: {str(directory)!r}, which contains none."
    )


def split_columns(name: FilePath, form: str = "SOURCE,TARGET") -> tuple[Path, tuple[str, str] | None]:
    """Split `pairs.csv#en,de` into path and columns; columns are None if not given."""
    path, (start, separator, names) = as_path(name), os.fspath(name).rpartition("#")
    if not separator or not start or path.exists():
        return path, None
    columns = [each.strip() for each in names.split(",")]
    if len(columns) != 2 or not all(columns):
        raise InputError(f"Columns are named as FILE#{form}. Received: {str(path)!r}.")
    return as_path(start), (columns[0], columns[1])
