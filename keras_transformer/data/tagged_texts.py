"""Tagged texts: files with a token and its tag on each line, and JSON lines of both; spans of BIO tags."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_transformer._arguments import as_strings
from keras_transformer.data.column_names import tokens_and_tags
from keras_transformer.data.formats import _ask, _Cells, _ending, _named, _open_json, _shown
from keras_transformer.data.labelled_texts import _cells_of, _is_labelled_row
from keras_transformer.data.parallel_text import _matching, _several, split_columns
from keras_transformer.data.text_files import Files, _iterate_lines
from keras_transformer.errors import InputError
from keras_transformer.types import TaggedText

_FORM = "TOKENS,TAGS"
_COMMENT = re.compile(r"-DOCSTART-|#( [^\t]* = [^\t]*| new(par|doc)\b[^\t]*)?$")
_PREFIXED = re.compile(r"[BIES]-.")


class TagSpan(NamedTuple):
    """Neighbouring tokens that are one thing, such as a name."""

    label: str
    """The tag without its prefix, such as `PER`."""
    start: int
    """The number of the first token, from 0."""
    end: int
    """The number after that of the last token."""


def read_tagged(origin: Files) -> list[TaggedText]:
    r"""Read texts whose tokens have tags.

    | origin | tagged texts |
    |---|---|
    | `PATH.jsonl`, `PATH.json` | objects such as `{"tokens": ["in", "Berlin"], "tags": ["O", "B-LOC"]}` |
    | every other file | CoNLL: a token, white space and its tag on each line, an empty line between texts |
    | `PATH#TOKENS,TAGS` | the fields of these names, or the numbers of columns from 1 |

    In a file of lines the token is the first column and the tag the last. Lines that begin with `-DOCSTART-`
    and comments of CoNLL-U are left out. Files may end in `.gz`, and be patterns such as `train-*.conll`.

    Args:
        origin: One of the table, or a list of them.

    Returns:
        The tokens and the tags of each text. White space within a token is left out of it.

    Raises:
        InputError: If a file cannot be read or has no tagged text, a line has no tag, an object does not have
            a tag for each token, or a token or a tag is empty.

    Example:
        ```python
        sentences = kt.data.read_tagged("eng.train")
        sentences = kt.data.read_tagged("treebank.conllu#2,4")
        ```
    """
    texts = [text for name in _several(origin) for text in _iterate_file(*split_columns(name, _FORM))]
    if not texts:
        raise InputError(f"{origin} must have tagged tokens. Received: no token.")
    return texts


def _iterate_file(pattern: Path, columns: tuple[str, str] | None) -> Iterator[TaggedText]:
    for path in _matching(pattern):
        if path.is_dir():
            raise InputError(f"Cannot read {path}: a directory. Name its files, such as {path}/*.conll.")
        if _ending(path) in (".jsonl", ".ndjson", ".json"):
            yield from _objects(path, columns)
        else:
            yield from _paragraphs(path, columns)


def _paragraphs(path: Path, columns: tuple[str, str] | None) -> Iterator[TaggedText]:
    if columns and not all(each.isdecimal() and int(each) > 0 for each in columns):
        raise InputError(f"{path}: columns of lines are numbers from 1. Received: {','.join(columns)}.")
    token_at, tag_at = (int(each) - 1 for each in columns) if columns else (0, -1)
    rows: list[tuple[str, str]] = []
    for number, line in enumerate(_iterate_lines(path), start=1):
        cells = line.split("\t") if "\t" in line else line.split()
        if not line.strip():
            yield from _text_of(rows)
            rows = []
        elif not _COMMENT.match(line):
            if len(cells) < max(2, token_at + 1, tag_at + 1):
                raise InputError(f"{path}:{number}: needs a token and a tag. Received: {line[:60]!r}.")
            rows.append(_token_and_tag(cells[token_at], cells[tag_at], f"{path}:{number}"))
    yield from _text_of(rows)


def _text_of(rows: Sequence[tuple[str, str]]) -> Iterator[TaggedText]:
    if rows:
        tokens, tags = zip(*rows, strict=True)
        yield tokens, tags


def _token_and_tag(token: str, tag: str, origin: str) -> tuple[str, str]:
    token, tag = "".join(token.split()), tag.strip()
    if not token or not tag:
        raise InputError(f"{origin}: a token and its tag must not be empty. Received: {token!r}, {tag!r}.")
    return token, tag


def _objects(path: Path, columns: tuple[str, str] | None) -> Iterator[TaggedText]:
    for number, cells in _open_json(path, _is_labelled_row, _cells_of)():
        origin = f"{path}:{number}"
        tokens, tags = (_strings(cell, origin) for cell in _chosen(path, cells, columns))
        if len(tokens) != len(tags):
            raise InputError(
                f"{origin}: must have a tag for each token. Received: {len(tokens)} tokens, {len(tags)} tags."
            )
        yield from _text_of([_token_and_tag(*pair, origin) for pair in zip(tokens, tags, strict=True)])


def _chosen(path: Path, cells: _Cells, columns: tuple[str, str] | None) -> tuple[str, str]:
    if not isinstance(cells, dict):
        raise InputError(f"{path} must hold objects of tokens and tags. Received: {_shown(cells)}.")
    names = [*cells]
    if columns:
        names = [names[place] for place in _named(path, names, columns)]
    else:
        found = tokens_and_tags(names)
        if found is None:
            problem = "the names of its fields do not say which are tokens and tags"
            raise _ask(path, problem, _FORM, names)
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

    A span begins with `B-`, or with `I-` where the tag before is `O` or of another label; so tags of IOB1 and
    what a model answers have spans as well. `E-` ends one, and `S-` is one of its own. These are the rules of
    the script `conlleval` and of the package `seqeval`.

    Args:
        tags: The tag of each token, such as `B-PER`, `I-PER` and `O`.

    Returns:
        The spans in order. Tags without a prefix, such as those of parts of speech, have none.

    Example:
        >>> tag_spans(["B-PER", "I-PER", "O", "I-LOC"])
        [TagSpan(label='PER', start=0, end=2), TagSpan(label='LOC', start=3, end=4)]
    """
    spans: list[TagSpan] = []
    start, kind, before = 0, "", "O"  # of the open span, "" for none; and the prefix before
    for number, tag in enumerate([*as_strings(tags=tags), "O"]):
        prefix, label = (tag[0], tag[2:]) if _PREFIXED.match(tag) else ("O", "")
        begins = prefix in "BS" or label != kind or (before in "ES" and prefix in "EI")
        if kind and (begins or prefix == "O"):
            spans.append(TagSpan(kind, start, number))
        if begins:
            start = number
        kind, before = label, prefix
    return spans
