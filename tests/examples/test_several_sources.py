"""The example ends with what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

import keras_transformer as kt

EXAMPLE = Path(__file__).parents[2] / "examples" / "several_sources.py"


@pytest.mark.slow
def test_two_sources_say_what_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(kt.__path__[0]).parent))
    finished = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "of 72 held out are exact" in finished.stdout


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 80
