"""Programs of `benchmarks`, as modules and run as their docstrings say."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a program, or a module of several, by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


@pytest.fixture
def run_program() -> Callable[..., str]:
    """Run a program by its name; what it prints."""
    # A program imports its neighbors from its own directory, which this variable would take away.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}

    def run(name: str, *words: object) -> str:
        command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *map(str, words)]
        finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return finished.stdout if finished.returncode == 0 else finished.stderr

    return run
