"""Reading and writing whole files, with errors a user understands."""

import contextlib
import hashlib
import os
import shutil
import threading
import time
from pathlib import Path

from keras_transformer.errors import InputError


def write_file(path: Path, content: bytes) -> None:
    """Writes a file beside its place and renames it, so that no half file remains.

    What was written is on the disk before the name says so, and stays there when the power fails.

    Args:
        path: the file; an existing one is replaced, its directory is created.
        content: all bytes of the file.

    Raises:
        InputError: the file cannot be written; the message names it and the cause.
    """
    # Not `tempfile`: its files are readable by their owner alone, and a model
    # server often runs as somebody else.
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        move_file(beside, path)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        _remove_quietly(beside)


def move_file(source: Path, target: Path) -> None:
    """Renames a file once all of it is on the disk, and waits until the new name is there too.

    Args:
        source: a file that was written.
        target: in the same directory; an existing file is replaced.

    Raises:
        OSError: the disk is full or failed.
    """
    # Windows flushes only what is open for writing.
    with source.open("r+b") as file:
        os.fsync(file.fileno())
    source.replace(target)
    # A rename is an entry of the directory. Windows opens no directories.
    if os.name == "posix":
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def remove_stale(directory: Path, seconds: float = 3600) -> None:
    """Removes what a killed process has left: a directory in which nothing has appeared for so long.

    Args:
        directory: that a process at work would write to.
        seconds: how long.

    Raises:
        OSError: the directory cannot be looked at.
    """
    with contextlib.suppress(FileNotFoundError):  # its process has just given it its name
        if time.time() - directory.stat().st_mtime > seconds:
            shutil.rmtree(directory, ignore_errors=True)


def file_sha256(path: Path) -> str:
    """Computes the SHA-256 of a file without holding all of it in memory.

    Args:
        path: the file.

    Returns:
        64 hexadecimal digits.

    Raises:
        OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


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
