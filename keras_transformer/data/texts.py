"""Read texts for language models: lines of files, table columns, and TFDS features."""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer._files import as_path
from keras_transformer.data.column_names import is_header
from keras_transformer.data.formats import (
    _FORMATS,
    _Cells,
    _column_indices,
    _ending,
    _Layout,
    _names_of_columns,
    _PairsFile,
    _shown_cells,
)
from keras_transformer.data.parallel_text import _as_list, _matching_files
from keras_transformer.data.text_files import FilePath, Files, _bounded, _iterate_texts
from keras_transformer.data.tfds import _read_tfds
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetInfo

_LOGGER = logging.getLogger(__name__)


def read_texts(origin: Files, split: str = "train", *, data_dir: FilePath | None = None) -> list[str]:
    """Read texts for a language model.

    | origin | texts |
    |---|---|
    | `PATH` | the lines of a text file |
    | `PATH.tsv`, `PATH.csv`, `PATH.jsonl`, `PATH.json` | the column `text` of a table, or its only column |
    | `PATH#COLUMN` | the column or field of this name, or the column number from 1 |
    | `tfds:NAME`, `tfds:NAME#FEATURE` | a text feature of a TFDS dataset, downloaded on first use |

    Files may be compressed (`.gz`) and given as patterns such as `part-*.txt.gz`. Blank lines are dropped.

    Args:
        origin: A path or a name, as in the table above, or a list of them.
        split: Split of the TFDS dataset. Ignored for files.
        data_dir: Directory of prepared TFDS datasets. Defaults to that of TFDS.

    Returns:
        The texts in order.

    Raises:
        InputError: If a file cannot be read, has no text, or its text column is ambiguous; `NoSplitError` if
            a dataset has no such split.

    Example:
        ```python
        texts = kt.data.read_texts("corpus/part-*.txt.gz")
        ```
    """
    texts: list[str] = []
    for name in _as_list(origin):
        spec = os.fspath(name)
        if spec.startswith("tfds:"):
            texts += _read_tfds_texts(spec, split, data_dir)
        else:
            path, column = _split_column(spec)
            for each in _matching_files(path):
                texts += _bounded(_iterate_column(each, column), each)
    kept = [text for text in texts if text.strip()]
    if texts and not kept:
        raise InputError(f"No line of {origin} has text. Received: {len(texts)} lines.")
    if num_empty := len(texts) - len(kept):
        _LOGGER.info("%d of %d lines of %s are empty, and left out", num_empty, len(texts), origin)
    return kept


def _split_column(spec: str) -> tuple[Path, str | None]:
    path, (start, separator, column) = as_path(spec), spec.rpartition("#")
    if not separator or not start or path.exists():
        return path, None
    return as_path(start), column.strip()


def _iterate_column(path: Path, column: str | None) -> Iterator[str]:
    if column is None and _ending(path) in (*_FORMATS,) and _ending(path) != ".txt":
        column = ""  # select it by name
    if column is None:
        yield from _iterate_texts(path)
        return
    if _ending(path) not in _FORMATS:
        raise InputError(f"A table must end in {', '.join(_FORMATS)}. Received: {path}#{column}.")
    for text, _ in _TextFile(path, (column, column)).pairs():
        yield text


class _TextFile(_PairsFile):
    """Texts of a table, whose column is both columns of a pair."""

    min_columns = 1

    def _choose_columns(self, head: list[_Cells]) -> _Layout:
        index, first_row = _chosen_column(self.path, head, (self.columns or ("",))[0])
        return _Layout(index, index, first_row)


def _chosen_column(path: Path, rows: Sequence[_Cells], wanted: str) -> tuple[str | int, int]:
    """Return the column of the texts, and the index of the first row with a text."""
    first = rows[0]
    if isinstance(first, dict):
        names = _names_of_columns(rows)
        if not wanted and "text" not in (name.strip().casefold() for name in names):
            names = _names_of_columns(rows, of_texts=True) or names
        return names[_text_column(path, names, wanted)], 0
    if (wanted.isdecimal() and int(wanted) > 0) or (not wanted and len(first) == 1):
        index = int(wanted or 1) - 1
        is_named = any(cell.strip().casefold() == "text" for cell in first[index : index + 1])
        is_name = is_named or (len(first) > 1 and is_header(first))
        return index, int(is_name)
    return _text_column(path, first, wanted), 1


def _text_column(path: Path, names: Sequence[str], wanted: str) -> int:
    if wanted:
        return _column_indices(path, names, (wanted, wanted))[0]
    found = [index for index, name in enumerate(names) if name.strip().casefold() == "text"]
    if len(found) == 1 or len(names) == 1:
        return (*found, 0)[0]
    raise InputError(
        f"{path}: no column is named text. Name the column of the texts: {path}#{names[0].strip() or 1}. "
        f"Received: {_shown_cells(names)}."
    )


def _read_tfds_texts(spec: str, split: str, data_dir: FilePath | None) -> list[str]:
    name, _, feature = spec.removeprefix("tfds:").partition("#")

    def choose(texts: list[str], _info: "DatasetInfo") -> list[str]:
        wanted = [key for key in texts if key == (feature or "text")] or ([] if feature else texts)
        if len(wanted) != 1:
            raise InputError(f"tfds:{name}#FEATURE must name a text. Received: {spec!r}, its texts={texts}.")
        return wanted

    return [text for (text,) in _read_tfds(name, split, choose, data_dir)]
