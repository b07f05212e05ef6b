"""Defaults, then a file, then flags."""

import dataclasses
from pathlib import Path

from keras_transformer.runs import ModelConfig, RunConfig
from keras_transformer.runs.config import DATES, run_config


def test_nothing_given_is_the_built_in_task() -> None:
    assert run_config(None, {"pairs": None, "source": None, "target": None}) == DATES


def test_flags_change_the_built_in_task() -> None:
    run = run_config(None, {"pairs": "dates", "epochs": 2})
    assert run.training.epochs == 2
    assert run.vocabulary == DATES.vocabulary


def test_a_preset_is_that_of_the_built_in_task_too() -> None:
    run = run_config(None, {"preset": "base", "num_heads": 4})
    assert run == dataclasses.replace(DATES, model=ModelConfig(preset="base", num_heads=4))


def test_own_texts_start_from_the_general_defaults() -> None:
    assert run_config(None, {"pairs": "a.tsv"}) == RunConfig().override({"pairs": "a.tsv"})


def test_flags_win_over_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('[data]\npairs = "a.tsv"\n[training]\nepochs = 3\n', encoding="utf-8")
    assert run_config(str(path), {"epochs": None}).training.epochs == 3
    assert run_config(str(path), {"epochs": 4}).training.epochs == 4
