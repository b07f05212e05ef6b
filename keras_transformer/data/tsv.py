"""Pairs from the columns of a tab-separated file."""

import os

from keras_transformer.data.pairs import Pair, drop_empty_pairs
from keras_transformer.data.text_files import read_lines
from keras_transformer.errors import InputError


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
