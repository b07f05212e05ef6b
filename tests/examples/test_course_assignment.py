"""The example ends with what it promises."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_the_small_setting_reverses_sequences() -> None:
    spec = importlib.util.find_spec("keras_transformer")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    package = Path(next(iter(spec.submodule_search_locations)))
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / "course_assignment.py"), "--small"],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "reversed exactly: " in finished.stdout
