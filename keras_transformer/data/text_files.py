"""Pairs from two parallel text files: line n of one translates line n of the other."""

import gzip
import os
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from keras_transformer.data.pairs import Pair, drop_empty_pairs
from keras_transformer.errors import InputError
from keras_transformer.files import read_file

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_parallel_text(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> list[Pair]:
    """Reads two files with the same number of lines.

    Args:
        source: file with one source text a line, plain or ending in `.gz`.
        target: file with the translation of each line of `source`.

    Returns:
        the pairs in file order, without those that are empty on one side.

    Raises:
        InputError: a file is missing, empty, damaged or no UTF-8; the numbers of lines
            differ; or no pair has text on both sides.
    """
    source_lines, target_lines = read_lines(source), read_lines(target)
    if len(source_lines) != len(target_lines):
        raise InputError(
            "Parallel files must have the same number of lines. "
            f"Received: {len(source_lines)} in {source}, {len(target_lines)} in {target}."
        )
    return drop_empty_pairs(list(zip(source_lines, target_lines, strict=True)), f"{source} and {target}")


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    r"""Reads the lines of a UTF-8 file.

    Only `\n` and `\r\n` end a line. `str.splitlines` also cuts at characters such as
    U+2028, which stand inside the sentences of web corpora and would shift all that follow.

    Args:
        path: the file, plain or ending in `.gz`.

    Returns:
        its lines without their ends, at least one.

    Raises:
        InputError: the file is missing, a directory, empty, damaged gzip or no UTF-8
            (with line and byte).
    """
    path = Path(path)
    content = read_file(path)
    if path.suffix == ".gz":
        content = _decompress(content, path)
    content = content.removeprefix(_BYTE_ORDER_MARK)
    if not content:
        raise InputError(f"Cannot read {path}: the file is empty.")
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()  # the end of the last line, not a line of its own
    return [_decode(line, path, number) for number, line in enumerate(lines, start=1)]


class ParallelText:
    """The pairs of two files, read line by line in each iteration; for `streamed_dataset`.

    Args:
        source: file with one source text a line, plain or ending in `.gz`.
        target: file with the translation of each line of `source`.

    Raises:
        InputError: a file is missing; in the iteration, it is damaged or no UTF-8, or one has more lines.
    """

    def __init__(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        self._paths = (Path(source), Path(target))
        for path in self._paths:
            if not path.is_file():
                reason = "no regular file to read in each epoch" if path.exists() else "no such file"
                raise InputError(f"Cannot read {path}: {reason}.")

    def __iter__(self) -> Iterator[Pair]:
        source_lines, target_lines = map(_iterate_lines, self._paths)
        for number, (source, target) in enumerate(zip_longest(source_lines, target_lines), start=1):
            if source is None or target is None:
                ended, longer = self._paths if source is None else self._paths[::-1]
                raise InputError(
                    "Parallel files must have the same number of lines. "
                    f"Received: {number - 1} in {ended}, more in {longer}."
                )
            yield source, target


def _iterate_lines(path: Path) -> Iterator[str]:
    """Read a file as `read_lines` does, one line at a time."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                content = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                yield _decode(content.removesuffix(b"\n"), path, number)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Cannot read {path}: {error}.") from error


def _decompress(content: bytes, path: Path) -> bytes:
    """Unpacks gzip data of at least one byte."""
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Cannot read {path}: damaged gzip data ({error}).") from error


def _decode(line: bytes, path: Path, number: int) -> str:
    """Decodes one line; counts lines and bytes from 1 as editors do."""
    try:
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}:{number}:{error.start + 1}: not valid UTF-8. Received: byte 0x{line[error.start]:02x}."
        ) from error


def read_tsv(
    path: str | os.PathLike[str],
    *,
    source_column: int = 0,
    target_column: int = 1,
    further_targets: bool = False,
) -> list[Pair]:
    """Reads pairs from two columns of a file.

    A tab always ends a column: there is no quoting and no header line. Blank lines are skipped.

    Args:
        path: the file, plain or ending in `.gz`.
        source_column: position of the source text, counted from 0.
        target_column: position of the target text, counted from 0.
        further_targets: whether the columns after the target are more of them, such as the other
            pronunciations of a word, each of which makes a pair with the source; otherwise they are
            left alone.

    Returns:
        the pairs in file order, without those that are empty on one side.

    Raises:
        InputError: the file cannot be read, a line has too few columns (with its number),
            or no pair has text on both sides.
        ValueError: a column is negative.
    """
    if min(source_column, target_column) < 0:
        raise ValueError(
            "Columns must be 0 or more. "
            f"Received: source_column={source_column}, target_column={target_column}."
        )
    num_columns = max(source_column, target_column) + 1
    rows = [
        _split(line, num_columns, f"{path}:{number}")
        for number, line in enumerate(read_lines(path), start=1)
        if line.strip()
    ]
    last = None if further_targets else target_column + 1
    pairs = [(row[source_column], target) for row in rows for target in row[target_column:last]]
    return drop_empty_pairs(pairs, str(path))


def _split(line: str, num_columns: int, place: str) -> list[str]:
    """Cuts a line at its tabs."""
    row = line.split("\t")
    if len(row) < num_columns:
        raise InputError(f"{place}: needs {num_columns} columns separated by tabs. Received: {len(row)}.")
    return row
