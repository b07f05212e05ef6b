"""The report of a run, and what is read of one that is damaged or absent."""

import json
from pathlib import Path

import pytest

from keras_transformer.runs.directory import run_examples, write_report


def test_examples_come_back(tmp_path: Path) -> None:
    write_report(tmp_path, {"seconds": 3}, ["3. März 2023", ""])
    assert run_examples(tmp_path) == ("3. März 2023", "")
    assert json.loads((tmp_path / "report.json").read_text())["seconds"] == 3


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"examples": null}', '{"seconds": 3'])
def test_a_report_without_examples(tmp_path: Path, content: str) -> None:
    assert run_examples(tmp_path) == ()
    (tmp_path / "report.json").write_text(content)
    assert run_examples(tmp_path) == ()
