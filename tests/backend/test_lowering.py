"""Each jitted step is lowered for a TPU and for a CUDA card, which are not there, by JAX's export."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import keras_transformer

pytestmark = [pytest.mark.backend, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("lowering.py")


def lower(*cases: str) -> dict[str, dict[str, Any]]:
    """Return what the program found, by case."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    [package] = keras_transformer.__path__
    finished = subprocess.run(
        [sys.executable, str(PROGRAM), *cases],
        env={**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(Path(package).parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    lines = map(json.loads, finished.stdout.splitlines())
    return {line.pop("case"): line for line in lines}


def test_each_step_has_a_lowering_of_known_sizes() -> None:
    found = lower()
    assert len(found) > 30
    for case, line in found.items():
        assert "error" not in line, f"{case}\n{line['error']}"
        assert (case, line["dynamic"], line["calls"], line["wide"]) == (case, [], [], [])
        assert line["operations"] > 100, case


def test_what_it_looks_for_is_found() -> None:
    found = lower("a size that is not known", "a library's operation")
    assert found["a size that is not known"]["dynamic"]
    assert found["a library's operation"]["calls"]
