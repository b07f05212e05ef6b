"""What attacks need: the command line, a run and an export to damage, a small machine."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trained_run import command, pairs_file, trained

__all__ = ["command", "export", "limit_memory", "pairs_file", "run", "small_machine", "trained"]


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of a run, to be damaged."""
    return shutil.copytree(trained / "runs/tiny", tmp_path / "copy/tiny")


@pytest.fixture
def export(trained: Path, tmp_path: Path) -> Path:
    """A copy of an export, to be damaged."""
    return shutil.copytree(trained / "saved_models/tiny/1", tmp_path / "copy/1")


@pytest.fixture
def limit_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make a machine of so many bytes of memory, of whatever the tests run on."""
    sysconf = os.sysconf

    def limit(num_bytes: int) -> None:
        sizes = {"SC_PHYS_PAGES": num_bytes, "SC_PAGE_SIZE": 1}
        monkeypatch.setattr(os, "sysconf", lambda name: sizes[name] if name in sizes else sysconf(name))

    return limit


@pytest.fixture
def small_machine(limit_memory: Callable[[int], None]) -> None:
    """A machine with 4 GiB of memory."""
    limit_memory(2**32)
