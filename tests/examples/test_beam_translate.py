"""The Beam job, in an environment of its own: Beam wants an older protobuf than this package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# An interpreter with what the example asks for.
PYTHON = os.environ.get("BEAM_PYTHON", sys.executable)

# It starts TensorFlow in three processes.
pytestmark = pytest.mark.slow


def run(directory: Path) -> None:
    command = [PYTHON, ROOT / "examples/beam_translate.py", "--model", ROOT / "saved_models/dates/1"]
    options = ["--input", "in/*", "--output", "out", "--max-characters", "40", "--direct_num_workers", "2"]
    finished = subprocess.run(
        [*command, *options, "--direct_running_mode", "multi_processing"],
        cwd=directory,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr


def test_shards_are_translated_once_and_bad_lines_set_aside(tmp_path: Path) -> None:
    if subprocess.run([PYTHON, "-c", "import apache_beam"], capture_output=True, check=False).returncode:
        pytest.skip("needs an environment with apache-beam, named by BEAM_PYTHON")
    shards = {"a": b"27. jan. 2094\nMarch 3, 2011\n", "b": b"\xff\n\n1 May 2000\n" + b"5" * 41, "c": b""}
    (tmp_path / "in").mkdir()
    for name, content in shards.items():
        (tmp_path / "in" / name).write_bytes(content)
    run(tmp_path)
    wanted = {
        "a": b"2094-01-27\n2011-03-03\n",
        "b": b"\n\n2000-05-01\n\n",
        "c": b"",
        "a.bad": b"",
        "c.bad": b"",
    }
    wanted["b.bad"] = b"1\tno UTF-8 at byte 0\t\xff\n4\t41 characters, more than 40\t" + b"5" * 41 + b"\n"
    out = tmp_path / "out"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == wanted
    (out / "a").unlink()
    (out / "b").write_bytes(b"is not made again")
    run(tmp_path)
    assert (out / "a").read_bytes() == wanted["a"]
    assert (out / "b").read_bytes() == b"is not made again"
