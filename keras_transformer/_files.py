"""Files and directories that are written atomically, checked when read, and named in errors."""

import contextlib
import errno
import hashlib
import itertools
import json
import os
import reprlib
import secrets
import select
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError

from keras_transformer.errors import InputError

if os.name == "posix":
    import fcntl

_PARTIAL, _REPLACING = ".partial-", ".replacing"
# Files read into memory are small, at most a history of a million epochs; a device would be endless.
_MAX_FILE_BYTES = 2**28
_MAX_DEPTH = 64
# Seconds to wait for a program that writes to a named pipe.
_PIPE_SECONDS = 10
# Seconds to wait for another process that replaces the entries of a directory or reads a model.
_LOCK_SECONDS = 60
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_Parse: TypeAlias = Callable[[str], Any]


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to `path` once its content is on the disk."""
    # Errors of the caller that name a file pass unchanged; errors here become an `InputError`.
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
    """Yield an empty temporary directory; rename it to `directory` once its content is on the disk.

    With `replace`, an existing directory gets the new entries and keeps its others; without, it must be
    empty. Read such a directory through `current_path`, which is correct even after a kill during
    replacement.
    """
    directory = resolved(directory)  # a link stays a link
    exists = replace and directory.is_dir()
    # An existing directory may be a mount point, and files cannot be renamed across disks.
    parent = directory if exists else directory.parent
    with _partial(directory, parent) as partial:
        with errors_named("write", directory):
            partial.mkdir(parents=True)
        with _leased(partial) as is_whole:
            yield partial
            with errors_named("write", directory):
                if not is_whole():
                    raise InputError(f"Cannot write {directory}: {partial} was removed meanwhile.")
                for path in partial.rglob("*"):
                    _flush(path)
                _rename_into_place(partial, directory, replace=replace)
                _flush(parent)


def current_path(directory: Path, name: str) -> Path:
    """Return the path of an entry; after a killed replacement it may still be in `.replacing`."""
    replacing = directory / _REPLACING
    return (replacing if (replacing / name.split("/")[0]).exists() else directory) / name


def finish_replacement(directory: Path) -> None:
    """Finish the replacement of entries that a killed `atomic_directory` had begun."""
    if (replacing := directory / _REPLACING).is_dir():
        with errors_named("write", directory):
            _move_entries(replacing, directory)
            _delete(replacing)


@contextlib.contextmanager
def directory_lock(directory: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a directory: exclusive to replace its entries, `shared` to read them."""
    number = _open_directory(directory)
    try:
        for _ in range(_LOCK_SECONDS * 20):
            if try_lock(number, shared=shared):
                break
            time.sleep(0.05)
        else:
            raise InputError(f"Cannot use {directory}: another process reads or replaces it.")
        yield
    finally:
        if number is not None:
            os.close(number)


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically; raise `InputError` if that fails."""
    with errors_named("write", path), atomic_file(path) as partial:
        partial.write_bytes(content)


def as_json(table: Mapping[str, object]) -> bytes:
    """Return the bytes of a JSON file."""
    return (json.dumps(table, indent=2) + "\n").encode()


def read_file(path: Path, *, limit: int = _MAX_FILE_BYTES, may_be_empty: bool = False) -> bytes:
    """Read a whole file; raise `InputError` if it is missing, unreadable, empty or too large."""
    with errors_named("read", path), open_for_reading(path) as file:
        content = file.read(limit)
    if len(content) == limit or not (content or may_be_empty):
        raise InputError(f"Cannot read {path}: the file is {'too large' if content else 'empty'}.")
    return content


@contextlib.contextmanager
def open_for_reading(path: Path) -> Iterator[BinaryIO]:
    """Open a binary file; raise `InputError` for a named pipe without a writer."""
    # Non-blocking, because opening a pipe would wait for a writer, which may never come.
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(number, "rb") as file:
        if stat.S_ISDIR(mode := os.fstat(number).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if stat.S_ISFIFO(mode):
            _wait_for_writer(number, path)
        if os.name == "posix":
            os.set_blocking(number, True)
        yield file


def _wait_for_writer(number: int, path: Path) -> None:
    if select.select([number], [], [], _PIPE_SECONDS)[0]:
        return
    with contextlib.suppress(BlockingIOError):  # a writer is there, but has not written yet
        os.read(number, 1)
        raise InputError(f"Cannot read {path}: it is a named pipe, and no program writes to it.")


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return a path; raise `InputError` for an empty one, which would mean the working directory."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"A path must be a string or a `pathlib.Path`. Received: {path!r:.200}.")
    if "\0" in (text := os.fspath(path)) or not text:
        raise InputError(f"A path must not be empty, and hold no NUL. Received: {text!r}.")
    return Path(text)


def check_writable(directory: Path) -> None:
    """Raise `InputError` if a directory cannot be created or written to."""
    with errors_named("write", directory):
        real = resolved(directory)
        place = next(path for path in (real, *real.parents) if path.exists())
        # Permissions are found reliably only by writing.
        tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=place).cleanup()


@contextlib.contextmanager
def errors_named(action: str, path: Path) -> Iterator[None]:
    """Convert an `OSError` to an `InputError` that names the action and the path."""
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot {action} {path}: {error.strerror or error}.") from error


def remove_partials(directory: Path, name: str = "", seconds: float = 3600) -> None:
    """Remove abandoned partial files and directories whose names end in `name`, unchanged for `seconds`."""
    for partial in directory.glob(f"{_PARTIAL}*"):
        if not partial.name.endswith(name):
            continue
        with contextlib.suppress(FileNotFoundError):  # another process has just renamed it or a file in it
            if _is_abandoned(partial, seconds):
                _delete(partial)


class Checksums:
    """SHA-256 checksums of the files of a directory, stored in `SHA256SUMS` in the format of `sha256sum`."""

    file = "SHA256SUMS"

    @staticmethod
    def of(path: Path) -> str:
        """Return the SHA-256 of a file, in hexadecimal."""
        digest = hashlib.sha256()
        # In blocks, because a model's weights may be larger than the free memory.
        with errors_named("read", path), path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    @staticmethod
    def of_values(values: dict[str, Any]) -> str:
        """Return the SHA-256 of names and values, for a file that includes its checksum."""
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    @staticmethod
    def of_each(values: Iterable[Any]) -> str:
        """Return the SHA-256 of a corpus, a JSON value at a time."""
        digest = hashlib.sha256()
        # JSON, so that different lists never have the same bytes.
        for value in values:
            digest.update(json.dumps(value).encode() + b"\n")
        return digest.hexdigest()

    @classmethod
    def write(cls, directory: Path) -> None:
        """Write the checksums of all files in a directory; call it last."""
        paths = sorted(path for path in directory.rglob("*") if path.is_file())
        lines = [f"{cls.of(path)}  {path.relative_to(directory).as_posix()}\n" for path in paths]
        # `sha256sum` ignores this line, which reveals a list truncated between two lines.
        write_file(directory / cls.file, f"# {len(lines)} files\n{''.join(lines)}".encode())

    @classmethod
    def check(cls, directory: Path) -> None:
        """Raise `InputError` for a missing or changed file; a directory without checksums passes."""
        path = current_path(directory, cls.file)
        if not path.exists():
            return
        count, *lines = read_file(path).decode(errors="replace").splitlines()
        if count != f"# {len(lines)} files":
            raise InputError(f"{path} is damaged: it lists {len(lines)} files. Received: {count!r}.")
        for wanted, _, name in (line.partition("  ") for line in lines):
            # Only regular files: reading a device might never end.
            is_inside = not name.startswith("/") and ".." not in name.split("/")
            if not is_inside or not (file := current_path(directory, name)).is_file():
                raise InputError(f"{directory} is not whole: it has no {name!r}, which {cls.file} lists.")
            if (received := cls.of(file)) != wanted:
                raise InputError(
                    f"{file} is damaged, half copied or of another model: its SHA-256 must be "
                    f"{wanted[:16]}…, as {cls.file} says. Received: {received[:16]}…."
                )


def read_table(
    content: bytes, origin: object, kind: Any = None, *, checksum: bool = False, parse: _Parse = json.loads
) -> Any:
    """Read a JSON object, or a table that `parse` reads; raise `InputError` for an invalid one.

    `origin` names the source in errors. With a `kind`, a class of typed fields, return an instance; unknown
    fields are errors. With `checksum`, check the object's checksum of its other values.
    """
    form = "JSON" if parse is json.loads else "TOML"
    try:
        # Some Windows editors write a byte order mark, which JSON and TOML do not allow.
        table = parse(content.decode("utf-8-sig"))
        _check_depth(table)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin} is not valid {form}: {error}.") from error
    if not isinstance(table, dict):
        raise InputError(f"{origin} must hold a {form} object. Received: {reprlib.repr(table)}.")
    if checksum and (wanted := table.pop("checksum", None)) != (received := Checksums.of_values(table)):
        raise InputError(f"{origin} is damaged: its checksum must be {wanted!r}. Received: {received!r}.")
    if kind is None:
        return table
    try:
        # As JSON, so that lists become tuples. In a list, because a class is strict only inside another type.
        return TypeAdapter(list[kind], config=_STRICT).validate_json(json.dumps([table]))[0]
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        if fault["type"] == "value_error":  # raised by a check of the class, with a complete message
            raise InputError(f"{origin} is damaged: {fault['ctx']['error']}") from error
        field, text = ".".join(map(str, fault["loc"][1:])), fault["msg"].replace("Input should", "must")
        received = reprlib.repr(fault["input"])
        raise InputError(f"{origin} is damaged: `{field}` {text}. Received: {field}={received}.") from error


def _check_depth(table: object) -> None:
    level = [table] if isinstance(table, dict | list) else []
    for _ in range(_MAX_DEPTH):
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
        level = [each for each in level if isinstance(each, dict | list)]
    if level:
        raise RecursionError(f"values are nested more than {_MAX_DEPTH} deep")


def version_numbers(directory: Path) -> list[int]:
    """Return the numeric entry names of a directory, ascending; empty if it does not exist."""
    paths = directory.iterdir() if directory.is_dir() else ()
    return sorted(int(path.name) for path in paths if path.name.isdecimal())


@contextlib.contextmanager
def numbered_directory(directory: Path) -> Iterator[tuple[int, Path]]:
    """Yield the next free number in a directory, and an empty directory that is renamed to it at the end."""
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    remove_partials(directory)
    for number in itertools.count(max(version_numbers(directory), default=0) + 1):
        # Concurrent processes or threads claim different numbers; finished ones have created the directory.
        claim = directory / f"{_PARTIAL}claim-{number}"
        with contextlib.suppress(FileExistsError):
            claim.mkdir()
            if not (directory / str(number)).exists():
                break
            claim.rmdir()
    try:
        with atomic_directory(directory / str(number)) as partial:
            yield number, partial
    finally:
        with contextlib.suppress(OSError):
            claim.rmdir()
            if is_new:
                directory.rmdir()


@contextlib.contextmanager
def _partial(path: Path, parent: Path) -> Iterator[Path]:
    is_new = not parent.exists()
    with errors_named("write", path):
        remove_partials(parent, f"-{path.name}")
    # Not `tempfile`, whose files only the owner can read: a model server often runs as another user.
    # A random name per call, because several processes or threads may write the same file.
    # The suffix is kept, because Keras saves only to `.keras`.
    partial = parent / f"{_PARTIAL}{secrets.token_hex(4)}-{path.name}"
    try:
        yield partial
    except OSError as error:
        if error.filename is not None:
            raise
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error  # such as a full disk
    finally:
        # Suppressed, so that the first error is reported. `rmdir` fails if the directory is not empty.
        with contextlib.suppress(OSError):
            _delete(partial)
            if is_new:
                parent.rmdir()


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    # Makes file content, or the names in a directory, survive a power failure.
    # Windows cannot open directories, and flushes only files opened for writing.
    if os.name != "posix" and path.is_dir():
        return
    number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _rename_into_place(partial: Path, directory: Path, *, replace: bool) -> None:
    if not (replace and directory.is_dir()):
        try:
            partial.rename(directory)
        except OSError as error:
            # Without `replace`, the first process to finish gets the name and the others fail.
            if not replace or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
    with directory_lock(directory):
        finish_replacement(directory)
        _exchange_entries(partial, directory)


def _exchange_entries(partial: Path, directory: Path) -> None:
    """Replace the entries of a directory by those of `partial`; undo all moves if one fails."""
    # One rename cannot replace a non-empty directory. The rename to `.replacing` is the switch: before it
    # `current_path` finds the old entries, after it the new ones, even if the process is killed.
    replacing = directory / _REPLACING
    partial.rename(replacing)
    moved: list[tuple[Path, Path]] = []
    try:
        _flush(directory)
        _move_entries(replacing, directory, moved)
    except BaseException:
        for source, destination in reversed(moved):
            destination.rename(source)
        replacing.rename(partial)
        raise
    _delete(replacing)


def _move_entries(replacing: Path, directory: Path, moved: list[tuple[Path, Path]] | None = None) -> None:
    entries, replaced = sorted(replacing.iterdir()), replacing / f"{_PARTIAL}replaced"
    replaced.mkdir(exist_ok=True)
    for entry in entries:
        if entry == replaced:
            continue
        target = directory / entry.name
        for source, destination in ((target, replaced / entry.name), (entry, target)):
            if source.exists():
                source.rename(destination)
                if moved is not None:
                    moved.append((source, destination))


@contextlib.contextmanager
def _leased(partial: Path) -> Iterator[Callable[[], bool]]:
    """Hold the lock of a partial directory, so that other processes do not remove it as abandoned."""
    number = _open_directory(partial)
    try_lock(number)
    # Compared by inode: writing a file may create a removed directory again under the same name.
    made = partial.stat() if number is None else os.fstat(number)

    def is_whole() -> bool:
        return partial.is_dir() and os.path.samestat(made, partial.stat())

    try:
        yield is_whole
    finally:
        if number is not None:
            os.close(number)


def _open_directory(directory: Path) -> int | None:
    # Windows cannot open directories and has no such locks.
    return os.open(directory, os.O_RDONLY) if os.name == "posix" else None


def try_lock(number: int | None, *, shared: bool = False) -> bool:
    """Try to lock an open file or directory; return False if another process or thread holds the lock."""
    if number is None:
        return True
    try:
        fcntl.flock(number, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system does not support locks
        return True
    return True


def _is_abandoned(partial: Path, seconds: float) -> bool:
    """Return whether a partial file or directory is abandoned: unlocked, and unchanged for `seconds`."""
    # The modification time of a directory does not change while its files grow.
    newest = max(path.stat().st_mtime for path in (partial, *partial.rglob("*")))
    if time.time() - newest < seconds:
        return False
    if not partial.is_dir() or (number := _open_directory(partial)) is None:
        return True
    try:
        return try_lock(number)
    finally:
        os.close(number)


def resolved(directory: Path) -> Path:
    """Return the directory behind a path; raise `InputError` for a dangling link."""
    if directory.is_symlink() and not directory.exists():
        raise InputError(
            f"Cannot write {directory}: it is a link to {directory.readlink()}, which is not there."
        )
    return directory.resolve()
