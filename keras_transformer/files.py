"""Reading and writing whole files, with errors a user understands."""

import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.errors import InputError


@contextlib.contextmanager
def written_as_one(directory: Path) -> Iterator[Path]:
    """Give a place to write to, whose content appears in a directory when all of it is there.

    What the directory has of the same names is replaced; other files in it stay. If anything fails,
    the directory is what it was.

    Args:
        directory: made if absent.

    Yields:
        An empty directory beside it, or in it if it is there: it may be a disk of its own.

    Raises:
        OSError: something cannot be written or renamed.
    """
    directory = directory.resolve()
    directory.parent.mkdir(parents=True, exist_ok=True)
    place = directory if directory.is_dir() else directory.parent
    beside, replaced = (place / f".{directory.name}.{os.getpid()}.{kind}" for kind in ("tmp", "old"))
    try:
        for place in (beside, replaced):
            shutil.rmtree(place, ignore_errors=True)
        beside.mkdir()
        yield beside
        if directory.exists():
            _exchange(beside, directory, replaced)
        else:
            beside.rename(directory)
    finally:
        for place in (beside, replaced):
            shutil.rmtree(place, ignore_errors=True)


def _exchange(beside: Path, directory: Path, replaced: Path) -> None:
    """Move each entry in, and the one that it replaces out; back again if one cannot be moved."""
    replaced.mkdir()
    moves: list[tuple[Path, Path]] = []
    try:
        for entry in sorted(beside.iterdir()):
            if (directory / entry.name).exists():
                _move(directory / entry.name, replaced / entry.name, moves)
            _move(entry, directory / entry.name, moves)
    except BaseException:
        for source, target in reversed(moves):
            target.rename(source)
        raise


def _move(source: Path, target: Path, moves: list[tuple[Path, Path]]) -> None:
    source.rename(target)
    moves.append((source, target))


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
