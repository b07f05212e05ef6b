"""Lines of text files: UTF-8, plain or compressed, and the segments of SGML files as lines."""

import contextlib
import gzip
import itertools
import logging
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, BinaryIO, TypeAlias, TypeVar

from keras_transformer._arguments import check_memory
from keras_transformer._files import as_path, open_for_reading
from keras_transformer.errors import InputError
from keras_transformer.types import Pair

FilePath: TypeAlias = str | os.PathLike[str]
Files: TypeAlias = FilePath | Sequence[FilePath]
"""A file, a pattern such as `train-*.de.gz`, or several of them: the shards of one text."""

_MAX_LINE_BYTES = 2**24
_Item = TypeVar("_Item", str, Pair)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_SGML_ENDINGS = (".sgm", ".sgml", ".xml")
# How SGML and XML files begin, and corpora with a tag on each line; no sentence does.
_MARKUP = re.compile(
    r"\s*<(\?xml|!doctype|srcset|refset|tstset|mteval|dataset|tmx|xliff|html|doc|url|keywords|talkid)\b", re.I
)

_LOGGER = logging.getLogger(__name__)


def read_lines(path: str | os.PathLike[str] | BinaryIO) -> list[str]:
    r"""Read the lines of a UTF-8 file.

    `\n` and `\r\n` end a line, and `\r` in a file without any `\n`. `str.splitlines` also cuts at characters
    such as U+2028, which stand inside the sentences of web corpora and would shift all that follow. Of an
    SGML file, such as the test sets of WMT, the lines are the texts of its `<seg>` elements.

    Args:
        path: the file, plain or ending in `.gz`; or an open one of bytes, such as `sys.stdin.buffer`.

    Returns:
        Its lines without their ends, at least one unless the file was open.

    Raises:
        InputError: the file is missing, a directory, empty, damaged gzip or not UTF-8 (with line and byte),
            it has a line of more than 16 MiB, it has tags and no `<seg>`, or it is more than the machine's
            memory holds.
    """
    if isinstance(path, str | os.PathLike):
        return _bounded(_iterate_texts(as_path(path)), path)
    if not hasattr(path, "readline"):
        raise TypeError(f"`path` must be a path, or an open file of bytes. Received: path={path!r:.200}.")
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


def _iterate_texts(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or the texts of the segments of SGML."""
    lines = _iterate_lines(path)
    first = next(lines)
    if _MARKUP.match(first) or path.name.lower().removesuffix(".gz").endswith(_SGML_ENDINGS):
        yield from _iterate_segments(itertools.chain([first], lines), path)
    else:
        yield first
        yield from lines


class _Segments(HTMLParser):
    """Collects the texts of `<seg>` elements; no entity of the file's own is expanded."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: deque[str] = deque()
        self.tags: set[str] = set()
        self._parts: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "seg":
            self._parts = []

    def handle_data(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "seg" and self._parts is not None:
            self.texts.append(" ".join("".join(self._parts).split()))
            self._parts = None


def _iterate_segments(lines: Iterable[str], path: Path) -> Iterator[str]:
    parser, num_segments = _Segments(), 0
    for line in lines:
        parser.feed(f"{line}\n")
        if parser.tags & {"tmx", "dataset", "xliff"}:
            raise InputError(
                f"{path} holds both sides of its pairs, and must not be read as lines. Give a TMX file "
                "ending in .tmx as pairs; of another format, write the two sides as files of lines."
            )
        num_segments += len(parser.texts)
        while parser.texts:
            yield parser.texts.popleft()
    if not num_segments:
        raise InputError(
            f"{path} must have <seg> elements, or no tags. Remove the lines of tags. "
            f"Received: {', '.join(f'<{tag}>' for tag in sorted(parser.tags)[:5]) or 'neither'}."
        )


def _iterate_lines(path: Path) -> Iterator[str]:
    is_empty = True
    try:
        with open_for_reading(path) as raw, _uncompressed(raw, path) as file:
            for line in _decoded_lines(file.readline, path):
                is_empty = False
                yield line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or f"damaged gzip data ({error})"
        raise InputError(f"Cannot read {path}: {reason}.") from error
    if is_empty:
        raise InputError(f"Cannot read {path}: the file is empty.")


def _uncompressed(file: BinaryIO, path: Path) -> contextlib.AbstractContextManager[IO[bytes] | gzip.GzipFile]:
    if path.suffix == ".gz":
        return contextlib.closing(gzip.GzipFile(fileobj=file))
    return contextlib.nullcontext(file)


def _decoded_lines(readline: Callable[[int], bytes], path: object) -> Iterator[str]:
    """Decode lines; count lines and bytes from 1 as editors do."""
    # Not by iteration: a device such as /dev/zero is one line without an end.
    lines = iter(lambda: readline(_MAX_LINE_BYTES + 1), b"")
    first, is_warned = next(lines, b""), False
    if first.startswith(_UTF_16_MARKS) or b"\0" in first[:1000]:
        raise InputError(
            f"{path}: not valid UTF-8 but UTF-16, or no text: iconv -f UTF-16 -t UTF-8 FILE > NEW_FILE. "
            f"Received: {first[:8]!r}."
        )
    for number, line in enumerate(itertools.chain(_lines_of(first), lines), start=1):
        if len(line) > _MAX_LINE_BYTES:
            raise InputError(f"{path}:{number}: a line must have at most {_MAX_LINE_BYTES:,} bytes.")
        content = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        try:
            if content:
                text = content.removesuffix(b"\n").rstrip(b"\r").decode("utf-8")
                if not is_warned and "\r" in text:
                    is_warned = True
                    _LOGGER.warning(
                        "%s:%d: a carriage return inside of a line is read as a part of it. Where it ends a "
                        "line: tr '\\r' '\\n' < FILE > NEW_FILE",
                        *(path, number),
                    )
                yield text
        except UnicodeDecodeError as error:
            place, byte = f"{path}:{number}:{error.start + 1}", content[error.start]
            raise InputError(
                f"{place}: not valid UTF-8. Received: byte 0x{byte:02x}. If it is Windows's encoding of "
                "Western Europe: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW_FILE"
            ) from error


def _lines_of(first: bytes) -> list[bytes]:
    """Split the only line of a file whose lines end in CR alone, as on the old Macintosh."""
    if first.endswith(b"\n") or b"\r" not in first or len(first) > _MAX_LINE_BYTES:
        return [first]
    return [line + b"\n" for line in first.removesuffix(b"\r").split(b"\r")]
