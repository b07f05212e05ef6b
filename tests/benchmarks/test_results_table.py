"""The table says what the report says."""

import json
from collections.abc import Callable
from pathlib import Path

from keras_transformer.config import RunConfig
from keras_transformer.evaluation import evaluate


def test_a_row_for_each_run(run_program: Callable[..., str], tmp_path: Path) -> None:
    report = evaluate(["a b c d", "x"], ["a b c d", "y"], tokenize="none")
    (tmp_path / "report.json").write_text(json.dumps({**report.to_dict(), "seconds": 90}), encoding="utf-8")
    (tmp_path / "config.json").write_text(RunConfig(name="mine").to_json(), encoding="utf-8")
    output = run_program("results_table", tmp_path)
    [row] = [line for line in output.splitlines() if line.startswith("| mine ")]
    assert "exact match 50.00 %" in row
    assert "tok:none" in row
    assert row.endswith("| 0 | 1.5 |")
    assert "tensorflow" in output
