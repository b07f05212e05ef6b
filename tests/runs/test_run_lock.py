"""A run belongs to one process at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.runs.directory import locked

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such locks")

HOLD = """
import sys, time
from pathlib import Path
from keras_transformer.runs.directory import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_another_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    directory = tmp_path / "runs/mine"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match=r"Another process is training .*runs/mine"), locked(directory):
            pass
        with locked(tmp_path / "runs/other"):
            pass
        process.kill()
    with locked(directory):
        assert not directory.exists()
    assert list(directory.parent.iterdir()) == []


def test_a_place_that_was_made_for_nothing_goes(tmp_path: Path) -> None:
    with locked(tmp_path / "runs/mine"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_it_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="any"), locked(tmp_path / "run"):
        raise RuntimeError("any")
    with locked(tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_its_process_removes_meanwhile_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    real, calls = fcntl.flock, []

    def flock(file: object, operation: int) -> None:
        real(file, operation)
        calls.append(operation)
        if len(calls) == 1:
            (tmp_path / ".run.lock").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "run"):
        assert (tmp_path / ".run.lock").exists()
    assert len(calls) == 2
