"""A directory that is written as one: beside its place, then renamed."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


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
