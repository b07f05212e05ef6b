"""One process for each run."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from keras_transformer.errors import InputError

if os.name == "posix":
    import fcntl


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep the directory of a run for this process; the system frees it if the process is killed.

    Two trainings in one directory would mix vocabularies and weights. Windows and some network file systems
    have no such locks.

    Args:
        directory: of the run; a file beside it is locked, since the directory itself may be replaced.

    Yields:
        nothing.

    Raises:
        InputError: another process has it.
    """
    if os.name != "posix":
        yield
        return
    was_there = directory.parent.exists()
    directory.parent.mkdir(parents=True, exist_ok=True)
    path = directory.with_name(f".{directory.name}.lock")
    with _locked_file(path, directory):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            if not was_there:  # nor left, unless there is something in it now
                with suppress(OSError):
                    directory.parent.rmdir()


def _locked_file(path: Path, directory: Path) -> Any:
    while True:
        file = path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise InputError(
                f"Another process is training {directory}. Wait for it, or choose another --name."
            ) from error
        except OSError:  # the file system has no locks
            return file
        if _is_still(file, path):
            return file
        file.close()  # the process before has removed it between the two calls


def _is_still(file: Any, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
