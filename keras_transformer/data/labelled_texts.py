"""Read labelled texts from tables, JSON, pairs of files, and folders named by label."""

import ast
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from keras_transformer._arguments import check_flags, check_kind
from keras_transformer._files import as_path
from keras_transformer.data.column_names import text_and_label
from keras_transformer.data.formats import (
    _Cells,
    _column_indices,
    _columns_error,
    _ending,
    _json_cell,
    _Layout,
    _names_of_columns,
    _open_json,
    _OpenRows,
    _PairsFile,
    _shown_cells,
)
from keras_transformer.data.parallel_text import _as_list, _find_shards, _find_tables, _tables_in
from keras_transformer.data.text_files import Files, _bounded, _iterate_lines
from keras_transformer.errors import InputError
from keras_transformer.types import LabelledText, Pair

_FORM = "TEXT,LABEL"
_SPLITS = {"train", "training", "test", "val", "valid", "validation", "dev"}
_TEXT_ENDINGS = (".txt", ".txt.gz")
_SEPARATORS = ("|", ";", ",")
_MANY_LABELS = 20
_ADJACENT_STRINGS = re.compile(r"['\"]\s+['\"]")

_LOGGER = logging.getLogger(__name__)


def read_labelled(
    origin: Files | tuple[Files, Files], *, multi_label: bool = False, separator: str | None = None
) -> list[LabelledText]:
    r"""Read labelled texts for classification.

    | origin | labelled texts |
    |---|---|
    | `PATH.tsv`, `PATH.txt` | a table with tabs; without a header, the less varied column holds the labels |
    | `PATH.csv` | a table with commas, semicolons or tabs and a header row |
    | `PATH.jsonl`, `PATH.json` | objects such as `{"text": "...", "label": "..."}`; a label may be a number |
    | `PATH#TEXT,LABEL` | the columns or fields of these names, or column numbers from 1 |
    | `DIRECTORY` | a folder of `.txt` files per label, as for Keras's `text_dataset_from_directory` |
    | `DIRECTORY` | all `.tsv` files in it, else all `.csv`, else all `.jsonl` files |
    | `(TEXTS, LABELS)` | two files, matched line by line |

    Files may be compressed (`.gz`) and given as patterns such as `train-*.csv`.

    Args:
        origin: A path, a list of paths or a pair of paths, as in the table above.
        multi_label: Whether a text has any number of labels: a list in JSON, or a table cell with separated
            labels, a JSON list or a Python list. An empty cell means no labels.
        separator: Separator of the labels in a cell. Defaults to the first of `|`, `;` and `,` that occurs in
            any cell.

    Returns:
        Pairs of a text and its label, a string; with `multi_label`, a tuple of strings. They are in file
        order; folders are sorted by label and file. Empty texts are dropped, and their number is logged.

    Raises:
        InputError: If the origin is not one of the table or cannot be read, its text and label columns are
            ambiguous, a label is empty or has several lines, or a text has several labels without
            `multi_label`.

    Example:
        ```python
        examples = kt.data.read_labelled("reviews.csv")  # with a header such as review,sentiment
        examples = kt.data.read_labelled("reviews.csv#3,1")
        examples = kt.data.read_labelled("aclImdb/train")  # aclImdb/train/pos/0_9.txt
        ```
    """
    check_flags(multi_label=multi_label)
    check_kind(str, None, separator=separator)
    rows = _bounded(_iterate_rows(origin), origin)
    texts = [(text, cell) for text, cell in rows if text.strip()]
    if not texts:
        raise InputError(f"{_origin_name(origin)} has no text. Received: {len(rows)} rows.")
    if num_empty := len(rows) - len(texts):
        _LOGGER.warning("Left out %d of %d rows of %s: no text.", num_empty, len(rows), _origin_name(origin))
    separator = separator or _first_separator([cell for _, cell in texts]) if multi_label else None
    examples = [(text, _labels_of(cell, separator)) for text, cell in texts]
    if broken := [label for _, labels in examples for label in labels if len(label.splitlines()) > 1]:
        raise InputError(f"{_origin_name(origin)}: a label must be one line. Received: {broken[0]!r:.80}.")
    if multi_label:
        return [*examples]
    _check_single(examples, origin)
    single = [(text, labels[0]) for text, labels in examples]
    _warn_of_many_labels([label for _, label in single], origin)
    return [*single]


def _origin_name(origin: object) -> str:
    return " and ".join(map(str, origin)) if isinstance(origin, tuple) else str(origin)


def _iterate_rows(origin: Files | tuple[Files, Files]) -> Iterator[Pair]:
    """Yield the text and label cell of each row. A list of labels is JSON."""
    if isinstance(origin, tuple):
        for shard in _find_shards(*origin):
            yield from shard.pairs()
        return
    for name in _as_list(origin):
        if (folder := as_path(name)).is_dir() and (folders := _label_folders(folder)):
            yield from _iterate_folders(folders)
            continue
        for path, columns in _find_tables(name, _FORM, "labelled texts"):
            yield from _LabelledFile(path, columns).pairs()


def _label_folders(directory: Path) -> list[Path]:
    folders = sorted(path for path in directory.iterdir() if path.is_dir() and not path.name.startswith("."))
    if split := next((path for path in folders if path.name.lower() in _SPLITS), None):
        raise InputError(
            f"{directory} must be the folder of one split, such as {split}. "
            f"Received: folders {_shown_cells([path.name for path in folders])}."
        )
    # Other files next to the folders are no texts, such as `urls_pos.txt`.
    return folders if not _tables_in(directory) and any(map(_text_files, folders)) else []


def _text_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.name.lower().endswith(_TEXT_ENDINGS))


def _iterate_folders(folders: Sequence[Path]) -> Iterator[Pair]:
    for folder in folders:
        for path in _text_files(folder):
            text = "\n".join(_iterate_lines(path)) if path.stat().st_size else ""
            yield text, json.dumps([folder.name])


class _LabelledFile(_PairsFile):
    """Texts and label cells of a table or JSON file."""

    def _open_format(self) -> _OpenRows:
        if _ending(self.path) in (".jsonl", ".ndjson", ".json"):
            return _open_json(self.path, has_lists=True)
        return super()._open_format()

    def _choose_columns(self, head: list[_Cells]) -> _Layout:
        return _text_and_label_columns(self.path, head, self.columns)


def _text_and_label_columns(path: Path, rows: Sequence[_Cells], wanted: tuple[str, str] | None) -> _Layout:
    """Select text and label columns from the first rows; raise InputError if they are ambiguous."""
    first = rows[0]
    if isinstance(first, dict):
        names = _names_of_columns(rows)
        text, label = _column_indices(path, names, wanted) if wanted else _columns_by_name(path, names)
        return _Layout(names[text], names[label])
    if wanted and all(each.isdecimal() and int(each) > 0 for each in wanted):
        text, label = (int(each) - 1 for each in wanted)
        is_header = text_and_label(first) is not None
        if not is_header:
            _warn_of_header(path, [row for row in rows if isinstance(row, list)], text, label)
        return _Layout(text, label, first_row=int(is_header))
    if wanted:
        return _Layout(*_column_indices(path, first, wanted), first_row=1)
    if text_and_label(first):
        return _Layout(*_columns_by_name(path, first), first_row=1)
    if _ending(path) == ".csv" or len(first) != 2:
        problem = "its first row does not say which columns are texts and labels"
        raise _columns_error(path, problem, "1,2", first)
    return _columns_by_values(path, [row for row in rows if isinstance(row, list)])


def _warn_of_header(path: Path, rows: Sequence[Sequence[str]], text: int, label: int) -> None:
    """Warn if the label of the first row is the only one that occurs once."""
    if len(rows[0]) <= max(text, label):
        return
    first, *others = (row[label] for row in rows if len(row) > label)
    counts = Counter(others)
    if counts and first not in counts and min(counts.values()) > 1:
        message = (
            "%s: the first row is read as an example, with the label %r. If it holds the names of the "
            "columns, select them by name: %s#%s,%s"
        )
        _LOGGER.warning(message, path, first, path, rows[0][text], first)


def _columns_by_name(path: Path, names: Sequence[str]) -> tuple[int, int]:
    found = text_and_label(names)
    if found is None:
        example = ",".join([*names, *_FORM.split(",")][:2])
        raise _columns_error(
            path, "the names of its columns do not say which are texts and labels", example, names
        )
    _LOGGER.info("%s: read texts of %r, labels of %r", path, *(names[index] for index in found))
    return found


def _columns_by_values(path: Path, rows: Sequence[Sequence[str]]) -> _Layout:
    """Select the column with fewer and shorter values as labels."""
    columns = [[row[index].strip() for row in rows if len(row) > index] for index in (0, 1)]
    kinds = [len({*column}) for column in columns]
    sizes = [sum(map(len, column)) for column in columns]
    label = 0 if (kinds[0], sizes[0]) < (kinds[1], sizes[1]) else 1
    if sizes[label] >= sizes[1 - label] or kinds[label] > kinds[1 - label]:
        raise _columns_error(path, "its columns do not say which are texts and labels", "1,2", rows[0])
    _LOGGER.info("%s: read texts of column %d, labels of column %d", path, 2 - label, 1 + label)
    return _Layout(1 - label, label)


def _first_separator(cells: Sequence[str]) -> str | None:
    plain = [cell for cell in cells if not cell.startswith("[")]
    return next((each for each in _SEPARATORS if any(each in cell for cell in plain)), None)


def _labels_of(cell: str, separator: str | None) -> tuple[str, ...]:
    """Return the distinct labels of a cell."""
    parts: Iterable[str] = cell.split(separator) if separator else [cell]
    if cell.strip() in ("nan", "NaN"):  # pandas writes NaN for a missing label
        parts = []
    if cell.startswith("["):
        parts = map(_json_cell, _list_of(cell))
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _list_of(cell: str) -> list[Any]:
    """Return the labels of a list in JSON, or in Python as pandas writes it; else a label with a bracket."""
    with suppress(ValueError, RecursionError):
        return [*json.loads(cell)]
    # Python would join the strings of a NumPy array, which have no commas.
    if _ADJACENT_STRINGS.search(cell) is None:
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = ast.literal_eval(cell)
            if isinstance(found, list) and all(isinstance(each, str | int | float | None) for each in found):
                return found
    return [cell]


def _check_single(examples: Sequence[tuple[str, tuple[str, ...]]], origin: object) -> None:
    """Raise InputError if a text has no label or several labels."""
    for wrong, fault in (
        ([text for text, labels in examples if not labels], "have no label. Leave them out, or label them"),
        (
            [text for text, labels in examples if len(labels) > 1],
            "have several labels. They are read with `multi_label`",
        ),
    ):
        if wrong:
            texts = f"{len(wrong)} of {len(examples)} texts"
            raise InputError(f"{_origin_name(origin)}: {texts} {fault}. Received: {wrong[0][:60]!r}.")


def _warn_of_many_labels(labels: Sequence[str], origin: object) -> None:
    counts = Counter(labels)
    if len(counts) > max(_MANY_LABELS, len(labels) / 2):
        message = "%s: %d texts have %d different labels. Are these the intended columns? Name them: FILE#%s"
        _LOGGER.warning(message, _origin_name(origin), len(labels), len(counts), _FORM)
