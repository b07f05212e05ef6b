"""The checks of an accelerator, in their dry run on a processor, where there is no TensorFlow."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What a machine for training need not have. `None` in `sys.modules` makes an import fail.
MISSING = (
    "tensorflow",
    "tensorflow_text",
    "tensorflow_datasets",
    "keras_hub",
    "sacrebleu",
    "click",
    "matplotlib",
)


def test_a_table_has_a_row_for_each_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.accelerator.page import table

    line = {"check": "a", "passes_if": "b", "backend": "jax", "passed": True, "numbers": {"error": 1e-7}}
    lines = [
        line,
        {**line, "backend": "torch", "passed": None, "reason": "why | not"},
        {**line, "check": "c", "passed": False},
    ]
    rows = table(lines).splitlines()
    assert rows[0] == "| check | passes if | jax | torch |"
    assert rows[2:] == [
        "| a | b | passed (at most 1.0e-07) | no verdict: why / not (at most 1.0e-07) |",
        "| c | b | **failed** (at most 1.0e-07) |  |",
    ]


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_dry_run(backend: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    code = f"import sys\nfor name in {MISSING}:\n    sys.modules[name] = None\n"
    (hidden / "sitecustomize.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.accelerator.run", "--directory", str(tmp_path), "--dry-run"]
    finished = subprocess.run(
        [*command, "--backend", backend],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(hidden), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [
        json.loads(line) for line in (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [line for line in lines if line["passed"] is False] == [], finished.stderr
    assert all(line["passed"] or line["reason"] for line in lines)
    assert len(lines) > 15
    assert lines[0]["numbers"]["tensorflow"] == "not imported"
    assert finished.returncode == 0, finished.stderr
