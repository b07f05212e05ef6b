"""Runs an example as a reader does, on the package that is tested."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_small(name: str, *arguments: str) -> str:
    """Run an example with `--small` in a process of its own, and give what it printed."""
    spec = importlib.util.find_spec("keras_transformer")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    package = Path(next(iter(spec.submodule_search_locations)))
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--small", *arguments],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="session")
def run_example() -> Callable[..., str]:
    return run_small


def load(name: str) -> Any:
    """Read an example as a module, to call what is in it."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


@pytest.fixture(scope="session")
def load_example() -> Callable[[str], Any]:
    return load
