"""Read tagged texts from CoNLL files and JSON, and find the spans of BIO tags."""

import json
import logging
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_transformer._arguments import as_strings
from keras_transformer.data.column_names import tokens_and_tags
from keras_transformer.data.formats import (
    _Cells,
    _column_indices,
    _columns_error,
    _ending,
    _open_json,
    _shown_cells,
)
from keras_transformer.data.parallel_text import _as_list, _matching_files, split_columns
from keras_transformer.data.text_files import Files, _iterate_lines
from keras_transformer.errors import InputError
from keras_transformer.types import TaggedText

_FORM = "TOKENS,TAGS"
_COMMENT = re.compile(r"-DOCSTART-|#(begin|end) document|#( [^\t]* = [^\t]*| new(par|doc)\b[^\t]*)?$")
# Lines of CoNLL-U begin with the number of a word, of several words as they are written (`1-2`), or of a word
# that is only meant (`5.1`). The seventh column is the number of another word.
_FIRST_ID, _NO_WORD, _HEAD = re.compile(r"1(-\d+)?|0\.1"), re.compile(r"\d+[-.]\d+"), re.compile(r"\d+|_")
_CONLLU_WIDTH = 10
_PREFIXED = re.compile(r"[BIESLUM]-.")
_SAME_PREFIX = {"L": "E", "U": "S", "M": "I"}  # of BILOU and BMES

_LOGGER = logging.getLogger(__name__)


class TagSpan(NamedTuple):
    """A tagged span of neighboring tokens, such as a name."""

    label: str
    """Tag without its prefix, such as `PER`."""
    start: int
    """Index of the first token, from 0."""
    end: int
    """Index after the last token."""


def read_tagged(origin: Files) -> list[TaggedText]:
    r"""Read tagged texts for token classification.

    | origin | tagged texts |
    |---|---|
    | `PATH.jsonl`, `PATH.json` | objects such as `{"tokens": ["in", "Berlin"], "tags": ["O", "B-LOC"]}` |
    | any other file | CoNLL: a token, white space and its tag per line, an empty line between texts |
    | `PATH#TOKENS,TAGS` | the fields of these names, or column numbers from 1 |

    In CoNLL files, the token is the first column and the tag the last; in CoNLL-U, known by the ending
    `.conllu` or by 10 columns with the number of a word in the first, the second and the fourth. Comments are
    skipped: lines that begin with `-DOCSTART-`, and lines that begin with `# ` unless they have the columns
    of a token. So are lines of CoNLL-U that are no words, such as `1-2`. Files may be compressed (`.gz`) and
    given as patterns such as `train-*.conll`.

    Args:
        origin: A path, as in the table above, or a list of paths.

    Returns:
        Pairs of the tokens and tags of each text. White space within a token is removed.

    Raises:
        InputError: If a file cannot be read or has no tagged text, a line has no tag, an object does not have
            one tag per token, or a token or tag is empty.

    Example:
        ```python
        sentences = kt.data.read_tagged("eng.train")
        sentences = kt.data.read_tagged("treebank.conllu#2,5")
        ```
    """
    texts = [text for name in _as_list(origin) for text in _iterate_tagged(*split_columns(name, _FORM))]
    if not texts:
        raise InputError(f"{origin} must have tagged tokens. Received: no token.")
    return texts


def _iterate_tagged(pattern: Path, columns: tuple[str, str] | None) -> Iterator[TaggedText]:
    for path in _matching_files(pattern):
        if path.is_dir():
            raise InputError(f"Cannot read {path}: a directory. Name its files, such as {path}/*.conll.")
        if _ending(path) in (".jsonl", ".ndjson", ".json"):
            yield from _iterate_objects(path, columns)
        else:
            yield from _iterate_paragraphs(path, columns)


def _iterate_paragraphs(path: Path, columns: tuple[str, str] | None) -> Iterator[TaggedText]:
    if columns and not all(each.isdecimal() and int(each) > 0 for each in columns):
        raise InputError(f"{path}: columns of lines are numbers from 1. Received: {','.join(columns)}.")
    is_conllu = True if _ending(path) == ".conllu" else None
    rows: list[tuple[str, str]] = []
    for number, cells in _without_comments(path, _iterate_lines(path)):
        if cells and is_conllu is None:
            has_width = len(cells) >= _CONLLU_WIDTH
            is_conllu = has_width and bool(_FIRST_ID.fullmatch(cells[0]) and _HEAD.fullmatch(cells[6]))
        is_row = is_conllu and len(cells) >= _CONLLU_WIDTH
        usual = (1, 3) if is_row else (0, -1)
        token_at, tag_at = (int(each) - 1 for each in columns) if columns else usual
        if not cells:
            yield from _tagged_text(rows)
            rows = []
        elif is_row and _NO_WORD.fullmatch(cells[0]):
            continue
        elif len(cells) < max(2, token_at + 1, tag_at + 1):
            received = "\t".join(cells)[:60]
            raise InputError(f"{path}:{number}: needs a token and a tag. Received: {received!r}.")
        else:
            rows.append(_token_and_tag(cells[token_at], cells[tag_at], f"{path}:{number}"))
    yield from _tagged_text(rows)


def _without_comments(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the columns of each line that is no comment; none for an empty line."""
    waiting: list[tuple[int, list[str]]] = []  # lines before the first that shows the number of columns
    width, num_unusual = None, 0
    for number, line in enumerate(lines, start=1):
        if _COMMENT.match(line):
            continue
        # At spaces only: a token may contain a no-break space, such as `1 000`.
        cells = re.split("\t" if "\t" in line else " +", line.strip(" \r")) if line.strip() else []
        waiting.append((number, cells))
        if line.strip() and not line.startswith("#"):
            width = width or len(waiting[-1][1])
        if width is not None:
            kept = [each for each in waiting if not _is_comment(each[1], width)]
            num_unusual += len(waiting) - len(kept)
            yield from kept
            waiting = []
    yield from waiting
    if num_unusual:
        _LOGGER.warning("%s: %d lines that begin with '# ' are read as comments.", path, num_unusual)


def _is_comment(cells: list[str], width: int) -> bool:
    """Return whether a line begins with `# `, and does not have the columns of a token."""
    if not cells or cells[0].split()[:1] != ["#"]:
        return False
    return len(cells) != width or len(cells[0].split()) > 1


def _tagged_text(rows: Sequence[tuple[str, str]]) -> Iterator[TaggedText]:
    if rows:
        tokens, tags = zip(*rows, strict=True)
        yield tokens, tags


def _token_and_tag(token: str, tag: str, origin: str) -> tuple[str, str]:
    word, tag = "".join(character for character in token if not _is_space(character)), tag.strip()
    if not word or not tag:
        raise InputError(f"{origin}: a token and its tag must not be empty. Received: {token!r}, {tag!r}.")
    return word, tag


def _is_space(character: str) -> bool:
    """Return whether a character would separate words in a text, as in `text.split_words`."""
    return unicodedata.category(character) in ("Cc", "Zl", "Zp", "Zs") or character in "\u200b\ufeff"


def _iterate_objects(path: Path, columns: tuple[str, str] | None) -> Iterator[TaggedText]:
    for number, cells in _open_json(path, has_lists=True)():
        origin = f"{path}:{number}"
        tokens, tags = (_strings(cell, origin) for cell in _token_and_tag_cells(path, cells, columns))
        if len(tokens) != len(tags):
            raise InputError(
                f"{origin}: must have a tag for each token. Received: {len(tokens)} tokens, {len(tags)} tags."
            )
        yield from _tagged_text([_token_and_tag(*pair, origin) for pair in zip(tokens, tags, strict=True)])


def _token_and_tag_cells(path: Path, cells: _Cells, columns: tuple[str, str] | None) -> tuple[str, str]:
    if not isinstance(cells, dict):
        raise InputError(f"{path} must hold objects of tokens and tags. Received: {_shown_cells(cells)}.")
    names = [*cells]
    if columns:
        names = [names[index] for index in _column_indices(path, names, columns)]
    else:
        found = tokens_and_tags(names)
        if found is None:
            problem = "the names of its fields do not say which are tokens and tags"
            raise _columns_error(path, problem, _FORM, names)
        names = [*found]
    return cells[names[0]], cells[names[1]]


def _strings(cell: str, origin: str) -> list[str]:
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        values = cell.split()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(f"{origin}: tokens and tags must be lists of strings. Received: {cell[:60]}.")
    return values


def tag_spans(tags: Sequence[str]) -> list[TagSpan]:
    """Return the spans of BIO tags.

    The rules are those of the script `conlleval` and the package `seqeval`: a span begins with `B-`, or with
    `I-` after `O` or a different label, so IOB1 tags and inconsistent model outputs are accepted too. `E-`
    ends a span, and `S-` is a span of one token. `L-` and `U-` of BILOU mean the same, and `M-` of BMES means
    `I-`.

    Args:
        tags: Tag of each token, such as `B-PER`, `I-PER` and `O`.

    Returns:
        The spans in order. Tags without a prefix, such as part-of-speech tags, yield no spans.

    Example:
        >>> tag_spans(["B-PER", "I-PER", "O", "I-LOC"])
        [TagSpan(label='PER', start=0, end=2), TagSpan(label='LOC', start=3, end=4)]
    """
    spans: list[TagSpan] = []
    start, kind, before = 0, "", "O"  # start and label ("" outside a span) of the open span; last prefix
    for number, tag in enumerate([*as_strings(tags=tags), "O"]):
        prefix, label = (tag[0], tag[2:]) if _PREFIXED.match(tag) else ("O", "")
        prefix = _SAME_PREFIX.get(prefix, prefix)
        begins = prefix in "BS" or label != kind or (before in "ES" and prefix in "EI")
        if kind and (begins or prefix == "O"):
            spans.append(TagSpan(kind, start, number))
        if begins:
            start = number
        kind, before = label, prefix
    return spans
