"""The table says what the report says."""

import json
import subprocess
import sys
from pathlib import Path

from keras_transformer.config import RunConfig
from keras_transformer.evaluation import evaluate

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "results_table.py"


def test_a_row_for_each_run(tmp_path: Path) -> None:
    report = evaluate(["a b c d", "x"], ["a b c d", "y"], tokenize="none")
    (tmp_path / "report.json").write_text(json.dumps({**report.to_dict(), "seconds": 90}), encoding="utf-8")
    (tmp_path / "config.json").write_text(RunConfig(name="mine").to_json(), encoding="utf-8")
    output = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    [row] = [line for line in output.splitlines() if line.startswith("| mine ")]
    assert "exact match 50.00 %" in row
    assert "tok:none" in row
    assert row.endswith("| 0 | 1.5 |")
    assert "tensorflow" in output
