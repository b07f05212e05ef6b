"""The text form of a vocabulary: line `n` (counted from 0) is token id `n`.

Each line is one JSON string. The quotes keep a space, a tab or a line break that is
itself an entry, and a line cut short is noticed. The four special tokens come first.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.text.special_tokens import NUM_SPECIAL_TOKENS, SPECIAL_TOKENS


def format_vocabulary(vocabulary: Sequence[str]) -> bytes:
    """Writes a vocabulary as the bytes of its file.

    Args:
        vocabulary: the entries after the special tokens, in the order of their ids.

    Returns:
        UTF-8 text, one JSON string a line.
    """
    entries = (*SPECIAL_TOKENS, *vocabulary)
    lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    return "".join(f"{line}\n" for line in lines).encode()


def parse_vocabulary(path: Path, content: bytes) -> list[str]:
    """Reads the bytes of a vocabulary file.

    Args:
        path: the file, named in errors.
        content: its bytes.

    Returns:
        the entries after the special tokens.

    Raises:
        InputError: a line is no JSON string, or the special tokens are not the first.
    """
    # Not `splitlines`, which also breaks at characters that may be entries.
    lines = content.removesuffix(b"\n").split(b"\n")
    entries = [_parse_line(path, number, line) for number, line in enumerate(lines, 1)]
    first = tuple(entries[:NUM_SPECIAL_TOKENS])
    if first != SPECIAL_TOKENS:
        raise InputError(f"{path} must start with {SPECIAL_TOKENS}. Received: {first}.")
    return entries[NUM_SPECIAL_TOKENS:]


def _parse_line(path: Path, number: int, line: bytes) -> str:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, or a thousand brackets
        entry = None
    if isinstance(entry, str):
        return entry
    shown = line[:60].decode(errors="backslashreplace")
    raise InputError(f"{path}:{number}: each line must be a JSON string. Received: {shown!r}.")
