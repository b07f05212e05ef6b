"""Reading and writing whole files, with errors a user understands."""

import os
from pathlib import Path

from keras_transformer.errors import InputError


def write_file(path: Path, content: bytes) -> None:
    """Writes a file beside its place and renames it, so that no half file remains.

    Args:
        path: the file; an existing one is replaced, its directory is created.
        content: all bytes of the file.

    Raises:
        InputError: the file cannot be written; the message names it and the cause.
    """
    # Not `tempfile`: its files are readable by their owner alone, and a model
    # server often runs as somebody else.
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        _remove_quietly(beside)


def _remove_quietly(path: Path) -> None:
    """Removes what an interrupted write left; the first error is the one to report."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def read_file(path: Path) -> bytes:
    """Reads a whole file.

    Args:
        path: the file.

    Returns:
        its bytes, at least one.

    Raises:
        InputError: the file is missing, unreadable or empty; the message names it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error
    if not content:
        raise InputError(f"Cannot read {path}: the file is empty.")
    return content
