"""The table says what the report says."""

import json
from collections.abc import Callable
from pathlib import Path

from keras_transformer.evaluation import evaluate
from keras_transformer.runs import RunConfig


def write_run(directory: Path, answers: list[str], **options: object) -> None:
    directory.mkdir()
    report = evaluate(answers, ["a b c d", "y"], tokenize="none")
    (directory / "report.json").write_text(json.dumps({**report.to_dict(), "seconds": 90}), encoding="utf-8")
    (directory / "config.json").write_text(RunConfig().override(options).to_json(), encoding="utf-8")


def rows(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("| mine")]


def test_a_row_for_each_recipe(run_program: Callable[..., str], tmp_path: Path) -> None:
    write_run(tmp_path / "first", ["a b c d", "x"], name="mine")
    write_run(tmp_path / "second", ["a b c d", "x"], name="mine", dropout=0.2)
    output = run_program("results_table", tmp_path / "first", tmp_path / "second")
    assert len(rows(output)) == 2
    assert "exact match 50.00 %" in rows(output)[0]
    assert "tok:none" in rows(output)[0]
    assert rows(output)[0].endswith("| 0 | 1.5 |")
    assert "tensorflow" in output


def test_seeds_of_a_recipe_share_a_row(run_program: Callable[..., str], tmp_path: Path) -> None:
    write_run(tmp_path / "first", ["a b c d", "x"], name="mine")
    write_run(tmp_path / "second", ["a b c d", "y"], name="mine_2", seed=2)
    [row] = rows(run_program("results_table", tmp_path / "first", tmp_path / "second"))
    assert row.startswith("| mine, mine_2 | 2 | exact match 75.00 % (50.00 to 100.00)")
    assert row.endswith("| 0, 2 | 1.5 |")


def test_so_do_runs_that_went_on_from_seeds_of_a_recipe(
    run_program: Callable[..., str], tmp_path: Path
) -> None:
    recipes = {"first": {"seed": 1}, "second": {"seed": 2, "distribute": "cores"}, "other": {"dropout": 0.2}}
    for name, options in recipes.items():
        write_run(tmp_path / name, ["a b c d", "x"], **options)
        write_run(tmp_path / f"{name}_2", ["a", "y"], name="mine", initial_model=str(tmp_path / name))
    runs = [tmp_path / f"{name}_2" for name in recipes]
    assert len(rows(run_program("results_table", *runs))) == 2
    (tmp_path / "second" / "config.json").unlink()
    assert len(rows(run_program("results_table", *runs))) == 3
