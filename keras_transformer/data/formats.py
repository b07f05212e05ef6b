"""Files of pairs: tables (tabs or commas), JSON, JSON lines and TMX, selected by the file suffix.

Each format is a function that inspects a file and returns a function that iterates over its rows: lists of
cells, or dicts of texts. `_source_and_target_columns` selects source and target for all formats.
"""

import csv
import functools
import itertools
import json
import logging
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias
from xml.parsers import expat

from keras_transformer._files import open_for_reading
from keras_transformer.data.column_names import is_header, is_short_code, source_and_target
from keras_transformer.data.text_files import _iterate_lines, _uncompressed
from keras_transformer.errors import InputError
from keras_transformer.types import Pair

_Cells: TypeAlias = list[str] | dict[str, str]
_Rows: TypeAlias = Iterator[tuple[int, _Cells]]  # line number and cells
_OpenRows: TypeAlias = Callable[[], _Rows]

_SAMPLE_SIZE = 1000
_MAX_CELL_LINES = 100
_MIN_QUOTED_ROWS = 10
_MAX_JSON = 2**28
_MAX_SEGMENT = 2**24
_DELIMITERS = ",;\t|"
_COLUMN_NAME = re.compile(r"[^\W\d][\w -]{0,30}")

_LOGGER = logging.getLogger(__name__)


class _PairsFile:
    """Pairs of a file, read again in each iteration. `columns` are names, or numbers from 1."""

    min_columns: ClassVar[int] = 2

    def __init__(self, path: Path, columns: tuple[str, str] | None = None) -> None:
        self.path, self.columns = path, columns
        self.files = [path]

    @functools.cached_property
    def _open_rows(self) -> _OpenRows:
        if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
            raise InputError(f"Cannot read {self.path}: not a regular file, which can be read twice.")
        return self._open_format()

    def _open_format(self) -> _OpenRows:
        return _FORMATS[_ending(self.path)](self.path)

    @functools.cached_property
    def _layout(self) -> "_Layout":
        head = [cells for _, cells in itertools.islice(self._open_rows(), _SAMPLE_SIZE)]
        if not head:
            raise InputError(f"Cannot read {self.path}: it has no rows.")
        if _ending(self.path) == ".csv" and len(head[0]) < self.min_columns:
            form = "2 columns separated by commas, semicolons or tabs"
            raise InputError(f"{self.path}:1: needs {form}. Received: 1.")
        return self._choose_columns(head)

    def _choose_columns(self, head: list[_Cells]) -> "_Layout":
        return _source_and_target_columns(self.path, head, self.columns)

    def pairs(self, *, further_targets: bool = False) -> Iterator[Pair]:
        """Yield the pairs; with `further_targets`, also the source with each later column."""
        source, target, first_row, has_more = self._layout
        for line, cells in itertools.islice(self._open_rows(), first_row, None):
            if isinstance(cells, dict) != isinstance(source, str):
                kind = "an object" if isinstance(source, str) else "a list"
                received = _shown_cells([*cells])
                raise InputError(
                    f"{self.path}:{line}: must be {kind} as the first row is. Received: {received}."
                )
            if isinstance(cells, dict):
                yield cells.get(str(source), ""), cells.get(str(target), "")
                continue
            source, target = int(source), int(target)
            if len(cells) <= max(source, target):
                wanted = f"needs {max(source, target) + 1} columns"
                form = " separated by tabs" if _ending(self.path) in (".tsv", ".txt") else ""
                raise InputError(f"{self.path}:{line}: {wanted}{form}. Received: {len(cells)}.")
            targets = cells[1:] if further_targets and has_more else cells[target : target + 1]
            yield from ((cells[source], text) for text in targets)


class _Layout(NamedTuple):
    source: str | int
    target: str | int
    first_row: int = 0
    has_more: bool = False  # whether later columns are further targets


def _ending(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _is_of_pairs(name: str) -> bool:
    return _ending(Path(name)) in _FORMATS


def _source_and_target_columns(path: Path, rows: list[_Cells], wanted: tuple[str, str] | None) -> _Layout:
    """Select source and target from the first rows; raise InputError if they are ambiguous."""
    first = rows[0]
    if isinstance(first, dict):
        names = _names_of_columns(rows)
        if wanted is None and source_and_target(names) is None:
            names = _names_of_columns(rows, of_texts=True)
        source, target = _column_indices(path, names, wanted)
        return _Layout(names[source], names[target])
    numbers = [int(each) - 1 for each in wanted or () if each.isdecimal() and int(each) > 0]
    if wanted and len(numbers) < 2:
        return _Layout(*_column_indices(path, first, wanted), first_row=1)
    # Two-letter names may be words, except in a .csv file, whose first row is a header.
    are_words = all(map(is_short_code, first)) and _ending(path) != ".csv"
    if is_header(first) and not (numbers and are_words):
        source, target = numbers or _column_indices(path, first, None)
        if are_words:
            _LOGGER.warning(
                "%s: its first row, %s, was taken for names of columns. If it is a pair: %s#1,2",
                *(path, first, path),
            )
        return _Layout(source, target, first_row=1)
    if numbers:
        source, target = numbers
        if len(first) > max(numbers):
            _LOGGER.info("%s: the first row is a pair: %r → %r", path, first[source], first[target])
        return _Layout(source, target, has_more=numbers == [0, 1])
    if _ending(path) == ".csv":
        # With numbers, a row of names would be read as a pair.
        example = ",".join(first[:2]) if all(map(_COLUMN_NAME.fullmatch, first[:2])) else "1,2"
        raise _columns_error(
            path, "its first row does not say which columns are source and target", example, first
        )
    return _columns_of_texts(path, [row for row in rows if isinstance(row, list)])


def _names_of_columns(rows: Sequence[_Cells], *, of_texts: bool = False) -> list[str]:
    """Return the names in the objects of rows; with `of_texts`, without those that hold only numbers."""
    objects = [row for row in rows if isinstance(row, dict)]
    names = dict.fromkeys(name for row in objects for name in row)
    if of_texts:
        cells = {name: [row[name] for row in objects if row.get(name)] for name in names}
        names = {name: None for name in names if not (cells[name] and all(map(_is_number, cells[name])))}
    return [*names]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _column_indices(path: Path, names: Sequence[str], wanted: tuple[str, str] | None) -> tuple[int, int]:
    """Return the indices of the source and target columns by name."""
    if wanted is None:
        found = source_and_target(names)
        if found is None:
            example = ",".join([*names, "SOURCE", "TARGET"][:2])
            raise _columns_error(
                path, "the names of its columns do not say which are source and target", example, names
            )
        _LOGGER.info("%s: read %r → %r", path, *(names[index] for index in found))
        return found
    indices = []
    for name in wanted:
        matches = [index for index, each in enumerate(names) if each.strip() == name]
        # Match the inner name of a nested object, or a language without its country.
        matches = matches or [index for index, each in enumerate(names) if _is_short_for(name, each)]
        if len(matches) != 1:
            raise InputError(
                f"{path} must have one column {name!r}. Received: columns {_shown_cells(names)}."
            )
        indices += matches
    return indices[0], indices[1]


def _is_short_for(name: str, column: str) -> bool:
    inner = column.rpartition(".")[2].strip().casefold().replace("_", "-")
    return inner == name.casefold().replace("_", "-") or inner.startswith(f"{name.casefold()}-")


def _columns_error(path: Path, problem: str, example: str, cells: Sequence[str]) -> InputError:
    way = "Select columns by name, or by number if the file has no header"
    return InputError(f"{path}: {problem}. {way}, such as {path}#{example}. Received: {_shown_cells(cells)}.")


def _shown_cells(cells: Sequence[str]) -> str:
    return ", ".join(repr(cell[:40]) for cell in cells[:8])


# A column with only such cells holds no texts: numbers, URLs, identifiers with a digit, licences.
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?|https?://\S+|[\w.-]+\.\w+/\S*", re.I)
_IDENTIFIER = re.compile(r"[\w.:/#-]*\d[\w.:/#-]*")
_LICENCE = re.compile(r"CC-BY|.*\bAttribution:")


def _columns_of_texts(path: Path, rows: list[list[str]]) -> _Layout:
    """Select the first two columns, unless the first rows show that other columns hold the texts."""
    num_columns = min(map(len, rows))
    columns = [[row[column].strip() for row in rows] for column in range(num_columns)]
    texts = [index for index, column in enumerate(columns) if not _is_metadata(column)]
    # With only two columns, numbers may be texts (a number and its name).
    if num_columns < 3 or texts[:2] == [0, 1]:
        return _Layout(0, 1, has_more=len(texts) == num_columns)
    if len(texts) == 2 and num_columns > 3:
        _LOGGER.warning("%s: read columns %d and %d; the others hold no texts", path, *(n + 1 for n in texts))
        return _Layout(texts[0], texts[1])
    example = ",".join(str(index + 1) for index in (texts if len(texts) == 2 else (0, 1)))
    raise _columns_error(
        path, "one of its first two columns holds no texts in the first rows", example, rows[0]
    )


def _is_metadata(cells: list[str]) -> bool:
    if all(map(_LICENCE.match, cells)):
        return True
    if len(cells) < 2:
        return False
    are_different = len({*cells}) == len(cells)
    is_constant = len({*cells}) == 1 and len(cells) > 2
    return (
        is_constant
        or all(map(_NUMBER.fullmatch, cells))
        or (are_different and all(map(_IDENTIFIER.fullmatch, cells)))
    )


def _open_tabs(path: Path) -> _OpenRows:
    """Split lines at every tab, unless a spreadsheet program clearly wrote the file."""
    return (
        functools.partial(_delimited, path, "\t")
        if _has_quoting(path)
        else functools.partial(_split_at_tabs, path)
    )


def _split_at_tabs(path: Path) -> _Rows:
    for number, line in enumerate(_iterate_lines(path), start=1):
        if "\t" in line or line.strip():
            yield number, line.split("\t")


_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')
_QUOTED_CELLS = re.compile(rf'(?:{_QUOTED.pattern}|[^"\t]*)(?:\t(?:{_QUOTED.pattern}|[^"\t]*))*')


def _has_quoting(path: Path) -> bool:
    """Return whether cells are quoted as by spreadsheet programs; warn if this is uncertain."""
    # Excel and Python's `csv` quote cells that contain a tab, a quote or a line break, and double the quotes
    # in them. A single cell that breaks these rules shows that the quotes belong to the texts.
    widths, plain_widths = set[int](), set[int]()
    num_records = num_cells = num_quoted = 0
    is_doubled = has_inner = False
    lines = _iterate_lines(path)
    for line in lines:
        parts = [line]
        while sum(part.count('"') for part in parts) % 2:
            following = next(lines, None)
            if following is None or len(parts) == _MAX_CELL_LINES:
                return False
            parts.append(following)
        record = "\n".join(parts)
        if not record.strip():
            continue
        cells = _QUOTED.findall(record) if '"' in record else []
        # A line break within a cell yields a line without a tab. If every line has a tab, one text begins
        # with a quote and another text ends with one.
        if cells and (
            not _QUOTED_CELLS.fullmatch(record) or (len(parts) > 1 and all("\t" in each for each in parts))
        ):
            return False
        width = (_QUOTED.sub("", record) if cells else record).count("\t")
        widths.add(width)
        plain_widths |= {part.count("\t") for part in parts}
        num_records, num_cells, num_quoted = num_records + 1, num_cells + width + 1, num_quoted + len(cells)
        is_doubled |= any('""' in cell[1:-1] for cell in cells)
        has_inner |= any("\t" in cell or "\n" in cell for cell in cells)
    if not num_quoted or 0 in widths:
        return False
    if is_doubled or (has_inner and (len(widths) == 1 or len(plain_widths) > 1)):
        return True
    if num_quoted == num_cells and num_records >= _MIN_QUOTED_ROWS:
        return True
    _LOGGER.warning(
        "%s: %d cells are in quotes, and these are read as parts of the texts. If a spreadsheet wrote them, "
        "end the name of the file in .csv.",
        *(path, num_quoted),
    )
    return False


def _open_commas(path: Path) -> _OpenRows:
    """Read quoted cells, with the delimiter that gives all rows the same number of cells."""
    sample = [*itertools.islice(_iterate_lines(path), _SAMPLE_SIZE)]
    # The first line may name the delimiter, as Excel supports it.
    named = re.fullmatch("sep=(.)", sample[0], re.I)
    if named:
        return functools.partial(_delimited, path, named[1], skipped=1, has_width=True)
    ranks = {each: _rate_delimiter(sample, each) for each in _DELIMITERS}
    # A file of one column has no delimiter; the first one finds quoted cells.
    best = max(_DELIMITERS, key=lambda delimiter: ranks[delimiter])
    return functools.partial(_delimited, path, best, has_width=True)


def _rate_delimiter(sample: list[str], delimiter: str) -> tuple[bool, bool, int]:
    """Rate a delimiter: whether it finds a header, whether rows have equal width, and that width."""
    try:
        rows = [row for row in csv.reader([f"{line}\n" for line in sample], delimiter=delimiter) if row]
    except csv.Error:  # a truncated or overlong cell
        return False, False, 0
    if not rows or len(rows[0]) < 2:
        return False, False, 0
    # The last row may be truncated by the sample.
    are_equal = len({*map(len, rows[:-1] if len(sample) == _SAMPLE_SIZE else rows)}) == 1
    return is_header(rows[0]), are_equal, len(rows[0])


def _delimited(path: Path, delimiter: str, *, skipped: int = 0, has_width: bool = False) -> _Rows:
    lines = itertools.islice(_iterate_lines(path), skipped, None)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    width = None
    try:
        for cells in reader:
            width = width or len(cells)
            if cells and has_width and len(cells) != width:
                raise InputError(
                    f"{path}:{reader.line_num + skipped}: must have {width} cells as the first row has; a "
                    f"text with {delimiter!r} in it must be in quotes. Received: {len(cells)} cells."
                )
            if cells:
                yield reader.line_num + skipped, cells
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num + skipped}: is not valid CSV: {error}.") from error


def _open_json(path: Path, *, has_lists: bool = False) -> _OpenRows:
    """Read an object per line, or an array of objects. Texts may be in a nested object, cells be lists."""
    first = next(line for line in itertools.chain(_iterate_lines(path), ["{}"]) if line.strip())
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        value = None
    has_rows = value is not None and _is_row(value, has_lists)
    if isinstance(value, dict) and not has_rows and _ending(path) != ".json":
        wanted = "each line must be a JSON object of texts, without lists of objects"
        raise InputError(f"{path}: {wanted}; an array of rows is a .json file. Received: {first[:80]!r}.")
    return functools.partial(_json_lines if has_rows else _json_array, path, has_lists)


def _is_row(value: object, has_lists: bool) -> bool:
    """Return whether a value is a row, and does not hold rows: lists of objects, or one list of lists."""
    if isinstance(value, list):
        return all(_is_cell(each, has_lists) for each in value)
    if not isinstance(value, dict):
        return False
    # The object of an empty file is `{}`.
    if value and not has_lists and all(isinstance(each, list) for each in value.values()):
        return False
    cells = [each for several in value.values() if isinstance(several, list) for each in several]
    rows = (dict, list) if len(value) == 1 else (dict,)
    return not any(isinstance(each, rows) for each in cells)


def _json_lines(path: Path, has_lists: bool) -> _Rows:
    for number, line in enumerate(_iterate_lines(path), start=1):
        if line.strip():
            yield number, _json_cells(_parsed(line, f"{path}:{number}"), f"{path}:{number}", has_lists)


def _json_array(path: Path, has_lists: bool) -> _Rows:
    parts, size = [], 0
    for line in _iterate_lines(path):
        parts.append(line)
        size += len(line)
        if size > _MAX_JSON:
            raise InputError(f"{path} is too large to be read at once: write an object on each line.")
    values = _parsed("\n".join(parts), path)
    # Also an object with a single list of rows: {"data": [...]}
    lists = (
        [each for each in values.values() if isinstance(each, list)] if isinstance(values, dict) else [values]
    )
    if len(lists) != 1 or not isinstance(lists[0], list):
        raise InputError(f"{path} must hold an object of texts on each line, or one array of such objects.")
    for number, value in enumerate(lists[0], start=1):
        yield number, _json_cells(value, f"{path}, row {number}", has_lists)


def _parsed(text: str, origin: object) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin} is not valid JSON: {error}.") from error


def _is_cell(value: object, has_lists: bool) -> bool:
    """Return whether a JSON value is a text: also a number and null; with `has_lists`, all but an object."""
    if has_lists:
        return not isinstance(value, dict)
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def _json_cells(value: object, origin: object, has_lists: bool) -> _Cells:
    if isinstance(value, list) and all(_is_cell(each, has_lists) for each in value):
        return [_json_cell(each) for each in value]
    if not isinstance(value, dict):
        raise InputError(f"{origin} must be a JSON object of texts. Received: {str(value)[:80]!r}.")
    inner = {
        f"{name}.{key}": each
        for name, item in value.items()
        if isinstance(item, dict)
        for key, each in item.items()
    }
    return {name: _json_cell(each) for name, each in {**value, **inner}.items() if _is_cell(each, has_lists)}


def _json_cell(value: Any) -> str:
    """Convert a JSON value to a table cell: null and NaN become empty, a list becomes JSON."""
    if isinstance(value, str):
        return _without_surrogates(value)
    if value is None or value != value:
        return ""
    # pandas writes integers as floats if another row has no value.
    is_whole = isinstance(value, float) and value.is_integer()
    return _without_surrogates(json.dumps(int(value) if is_whole else value, ensure_ascii=False))


def _without_surrogates(text: str) -> str:
    # JSON can contain lone surrogates, which UTF-8 cannot encode.
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _open_tmx(path: Path) -> _OpenRows:
    return functools.partial(_tmx_units, path)


class _Units:
    """Collect the translation units of TMX as texts by language; entity declarations are rejected."""

    def __init__(self, path: Path) -> None:
        self.done: deque[tuple[int, _Cells]] = deque()
        self._path, self._source, self._language = path, "", ""
        self._unit: dict[str, str] = {}
        self._parts: list[str] | None = None
        self._num_hidden = self._size = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add
        self.parser.EntityDeclHandler = self.parser.SkippedEntityHandler = self._refuse

    def _refuse(self, name: str, *_: object) -> None:
        raise InputError(f"{self._path}: must not declare entities. Received: {name!r}.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "header":
            self._source = attributes.get("srclang", "").lower()
        elif name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", "")).lower()
        elif name == "seg":
            self._parts, self._num_hidden, self._size = [], 0, 0
        elif name in ("bpt", "ept", "it", "ph", "ut"):  # inline markup of the original document
            self._num_hidden += 1

    def _add(self, text: str) -> None:
        if self._parts is None or self._num_hidden:
            return
        self._size += len(text)
        if self._size > _MAX_SEGMENT:
            line = self.parser.CurrentLineNumber
            raise InputError(f"{self._path}:{line}: a text must have at most {_MAX_SEGMENT:,} characters.")
        self._parts.append(text)

    def _end(self, name: str) -> None:
        if name == "seg" and self._parts is not None:
            text = re.sub(r"[ \t\r\n]+", " ", "".join(self._parts)).strip(" ")
            self._unit.setdefault(self._language, text)
            self._parts = None
        elif name in ("bpt", "ept", "it", "ph", "ut"):
            self._num_hidden -= 1
        elif name == "tu":
            # Put the source language first; some units list it last, or name another country (`en`, `en-US`).
            source = self._source
            order = sorted(self._unit, key=lambda tag: (tag != source, _language(tag) != _language(source)))
            unit = {tag: self._unit[tag] for tag in order}
            self.done.append((self.parser.CurrentLineNumber, unit))


def _language(tag: str) -> str:
    return re.split("[-_]", tag)[0]  # `en` of `en-us`


def _tmx_units(path: Path) -> _Rows:
    units = _Units(path)
    try:
        with open_for_reading(path) as raw, _uncompressed(raw, path) as file:
            while block := file.read(1 << 16):
                units.parser.Parse(block)
                while units.done:
                    yield units.done.popleft()
            units.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise InputError(f"{path} is not valid XML: {error}.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error


_FORMATS: dict[str, Callable[[Path], _OpenRows]] = {
    ".tsv": _open_tabs,
    ".txt": _open_tabs,
    ".csv": _open_commas,
    ".jsonl": _open_json,
    ".ndjson": _open_json,
    ".json": _open_json,
    ".tmx": _open_tmx,
}
