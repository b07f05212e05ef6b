"""Read lines of UTF-8 text files, plain or compressed, and segments of SGML files."""

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
"""A file, a pattern such as `train-*.de.gz`, or a sequence of them (shards)."""

_MAX_LINE_BYTES = 2**24
_Item = TypeVar("_Item", str, Pair)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_GZIP_MARK = b"\x1f\x8b"
_OTHER_FILES = {
    "xz: decompress it with `xz -d`": re.compile(rb"\xfd7zXZ"),
    "bzip2: decompress it with `bzip2 -d`": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "Zstandard: decompress it with `zstd -d`": re.compile(rb"\x28\xb5\x2f\xfd"),
    "zip or Excel: unzip it, or save the table as CSV": re.compile(rb"PK\x03\x04"),
    "Parquet: write it as CSV or JSON lines": re.compile(rb"PAR1[^\n]{0,20}\x00"),
}
_SGML_ENDINGS = (".sgm", ".sgml", ".xml")
# The beginnings of SGML and XML files, and of corpora with tag lines.
_MARKUP = re.compile(
    r"\s*<(\?xml|!doctype|srcset|refset|tstset|mteval|dataset|tmx|xliff|html|doc|url|keywords|talkid)\b", re.I
)

_LOGGER = logging.getLogger(__name__)


def read_lines(path: str | os.PathLike[str] | BinaryIO) -> list[str]:
    r"""Read the lines of a UTF-8 file.

    Lines end with `\n` or `\r\n`, or with `\r` in a file without `\n`. Unlike `str.splitlines`, other
    characters such as U+2028 do not end a line: web corpora contain them within sentences, and all later
    lines would be misaligned. For SGML files, such as the WMT test sets, the texts of the `<seg>` elements
    are returned.

    Args:
        path: Path of the file, plain or `.gz`; or an open binary file, such as `sys.stdin.buffer`.

    Returns:
        The lines without line ends: at least one, except for an open file.

    Raises:
        InputError: If the file is missing, a directory, empty, damaged gzip or not UTF-8 (the message names
            line and byte), a line exceeds 16 MiB, an SGML file has no `<seg>`, or the texts exceed the
            memory.
    """
    if isinstance(path, str | os.PathLike):
        return _bounded(_iterate_texts(as_path(path)), path)
    if not hasattr(path, "readline"):
        raise TypeError(f"`path` must be a path, or an open file of bytes. Received: path={path!r:.200}.")
    name = getattr(path, "name", "standard input")
    return _bounded(_decoded_lines(path.readline, name), name)


def _bounded(items: Iterable[_Item], origin: object) -> list[_Item]:
    """Return texts or pairs as a list; raise InputError if they exceed the memory (endless pipes)."""
    kept, num_bytes = [], 0
    for item in items:
        kept.append(item)
        num_bytes += sum(map(sys.getsizeof, (item,) if isinstance(item, str) else item))
        if len(kept) % 10_000 == 0:
            check_memory(2 * num_bytes, input=origin)
    return kept


def _iterate_texts(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or the segment texts of an SGML file."""
    lines = _iterate_lines(path)
    first = next(lines)
    if _MARKUP.match(first) or path.name.lower().removesuffix(".gz").endswith(_SGML_ENDINGS):
        yield from _iterate_segments(itertools.chain([first], lines), path)
    else:
        yield first
        yield from lines


class _Segments(HTMLParser):
    """Collect the texts of `<seg>` elements. Entities defined in the file are not expanded."""

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
    if path.suffix.lower() == ".gz":
        return contextlib.closing(gzip.GzipFile(fileobj=file))
    return contextlib.nullcontext(file)


def _decoded_lines(readline: Callable[[int], bytes], path: object) -> Iterator[str]:
    """Decode lines. Errors count lines and bytes from 1, as editors do."""
    # `readline` with a limit, because a device such as /dev/zero is one endless line.
    lines = iter(lambda: readline(_MAX_LINE_BYTES + 1), b"")
    first, is_warned = next(lines, b""), False
    if first.startswith(_GZIP_MARK):
        wanted = "a file that is compressed by gzip must end in .gz, and be compressed once"
        raise InputError(f"{path}: {wanted}. Received: {first[:8]!r}.")
    if found := next((name for name, mark in _OTHER_FILES.items() if mark.match(first)), None):
        raise InputError(f"{path}: must be text. Received: {first[:8]!r}, a file of {found}.")
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
                        "%s:%d: a carriage return inside of a line is read as a part of it. If it ends a "
                        "line: tr '\\r' '\\n' < FILE > NEW_FILE",
                        *(path, number),
                    )
                yield text
        except UnicodeDecodeError as error:
            location, byte = f"{path}:{number}:{error.start + 1}", content[error.start]
            raise InputError(
                f"{location}: not valid UTF-8. Received: byte 0x{byte:02x}. If it is Windows's encoding of "
                "Western Europe: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW_FILE"
            ) from error


def _lines_of(first: bytes) -> list[bytes]:
    """Split the first line at CR if the file has only CR line ends, as on old Macintosh systems."""
    if first.endswith(b"\n") or b"\r" not in first or len(first) > _MAX_LINE_BYTES:
        return [first]
    return [line + b"\n" for line in first.removesuffix(b"\r").split(b"\r")]
