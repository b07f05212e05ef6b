"""Files and directories that appear whole or not at all, and errors that name them."""

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.errors import InputError

_PARTIAL = ".partial-"


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which takes the name of `path` once its content is on the disk."""
    # What the caller raises passes, if it names a file; what fails here is an `InputError`, as below.
    with errors_named("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _partial(path, path.parent) as partial:
        yield partial
        with errors_named("write", path):
            _flush(partial)
            partial.replace(path)
            _flush(path.parent)


@contextlib.contextmanager
def atomic_directory(directory: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield an empty directory to write to, which takes the name of `directory` once all is on the disk.

    With `replace`, a directory that exists gets the new entries and keeps its others; else it must be empty.
    """
    directory = directory.resolve()  # a link stays a link
    exists = replace and directory.is_dir()
    # An existing directory may be a disk of its own, and nothing is renamed from one disk to another.
    parent = directory if exists else directory.parent
    with _partial(directory, parent) as partial:
        with errors_named("write", directory):
            partial.mkdir(parents=True)
        yield partial
        with errors_named("write", directory):
            for path in partial.rglob("*"):
                _flush(path)
            # A single rename cannot replace a directory that holds something. Where nothing may be replaced
            # that is wanted: of several processes the first to finish gets the name.
            if exists:
                _exchange_entries(partial, directory)
            else:
                partial.rename(directory)
            _flush(parent)


def write_file(path: Path, content: bytes) -> None:
    """Write a whole file; raise `InputError` if that fails."""
    with errors_named("write", path), atomic_file(path) as partial:
        partial.write_bytes(content)


def read_file(path: Path) -> bytes:
    """Read a whole file; raise `InputError` if it is missing, unreadable or empty."""
    with errors_named("read", path):
        content = path.read_bytes()
    if not content:
        raise InputError(f"Cannot read {path}: the file is empty.")
    return content


def _as_path(path: str | os.PathLike[str]) -> Path:
    """Return a path; raise `InputError` for an empty one, which would be the working directory."""
    if "\0" in (text := os.fspath(path)) or not text:
        raise InputError(f"A path must not be empty, and hold no NUL. Received: {text!r}.")
    return Path(text)


def _check_writable(directory: Path) -> None:
    """Raise `InputError` if a directory cannot be made, or nothing can be written to it."""
    with errors_named("write", directory):
        place = next(path for path in (directory.resolve(), *directory.resolve().parents) if path.exists())
        # What the system allows shows when it is tried.
        tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=place).cleanup()


@contextlib.contextmanager
def errors_named(action: str, path: Path) -> Iterator[None]:
    """Raise an `OSError` again as an `InputError` that says which path the program cannot read or write."""
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot {action} {path}: {error.strerror or error}.") from error


def remove_partials(directory: Path, name: str = "", seconds: float = 3600) -> None:
    """Remove what killed processes left of `name`: partial files and directories unchanged for so long."""
    for partial in directory.glob(f"{_PARTIAL}*"):
        if not partial.name.endswith(name):
            continue
        with contextlib.suppress(FileNotFoundError):  # its process has just renamed it
            if time.time() - partial.stat().st_mtime >= seconds:
                _remove(partial)


def file_sha256(path: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    # By blocks: the weights of a model may be larger than the memory that is left beside it.
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def _partial(path: Path, parent: Path) -> Iterator[Path]:
    is_new = not parent.exists()
    with errors_named("write", path):
        remove_partials(parent, f"-{path.name}")
    # Not `tempfile`: only its owner may read such files, and a model server often runs as another user.
    # Each call has its own name, since several processes or threads may write the same file.
    # The suffix stays, since Keras saves only to `.keras`.
    partial = parent / f"{_PARTIAL}{secrets.token_hex(4)}-{path.name}"
    try:
        yield partial
    except OSError as error:
        if error.filename is not None:
            raise
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error  # of a full disk
    finally:
        # The first error is the one to report. `rmdir` fails if the directory holds what was written.
        with contextlib.suppress(OSError):
            _remove(partial)
            if is_new:
                parent.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    # So that content, or names in a directory, survive a power failure.
    # Windows opens no directories, and flushes only what is open for writing.
    if os.name != "posix" and path.is_dir():
        return
    number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _exchange_entries(partial: Path, directory: Path) -> None:
    """Move each entry in, and the one that it replaces out; move all back if one move fails."""
    entries, replaced = sorted(partial.iterdir()), partial / f"{_PARTIAL}replaced"
    replaced.mkdir()
    moved: list[tuple[Path, Path]] = []
    try:
        for entry in entries:
            target = directory / entry.name
            for source, destination in ((target, replaced / entry.name), (entry, target)):
                if source.exists():
                    source.rename(destination)
                    moved.append((source, destination))
    except BaseException:
        for source, destination in reversed(moved):
            destination.rename(source)
        raise
