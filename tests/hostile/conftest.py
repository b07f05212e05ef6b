"""Fixtures of all attacks: the command line in an empty directory, a trained run, a small machine."""

import os
from collections.abc import Callable

import pytest

from trained_run import command, pairs_file, trained

__all__ = ["command", "limit_memory", "pairs_file", "small_machine", "trained"]


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
