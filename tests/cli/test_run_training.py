"""The options of the recipe, in one run that has them all."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from keras_transformer.cli import run_training
from keras_transformer.config.training import MONITORS
from keras_transformer.evaluation import METRICS
from keras_transformer.training import RDropCrossentropy, read_checkpoint, read_state

RECIPE = [
    *("--epochs", "3", "--monitor", "exact_match", "--monitored-pairs", "1", "--patience", "2"),
    *("--average-last", "2", "--ema-momentum", "0.9", "--r-drop", "5", "--clip-norm", "1"),
    *("--gradient-accumulation-steps", "2", "--tokens-per-batch", "64"),
]


def test_what_can_be_monitored_is_the_loss_and_every_metric() -> None:
    assert sorted(MONITORS) == sorted(["loss", *METRICS])


def test_every_option_of_the_recipe_at_once(
    run: Callable, pairs_file: Path, small: list[str], tmp_path: Path
) -> None:
    result = run("train", "--pairs", pairs_file, "--name", "recipe", *small, *RECIPE)
    assert result.exit_code == 0, result.output
    directory = tmp_path / "runs/recipe"
    state = read_state(directory / "checkpoints")
    assert state is not None
    # The untrained model is never right: the first epoch stays the best, and the run stops after two more.
    assert (state.epoch, state.best_epoch, state.best_value) == (3, 1, 1.0)
    assert "val_exact_match 0.0000" in result.stderr
    assert "the mean of the last 2 epochs" in result.stderr
    kept = sorted(path.name for path in (directory / "checkpoints/recent").iterdir())
    assert kept == ["epoch-0002.keras", "epoch-0003.keras"]
    with (directory / "training.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert all(float(row["tokens_per_second"]) > 0 and 0 <= float(row["padding"]) < 1 for row in rows)
    check_compiled(directory)


def check_compiled(directory: Path) -> None:
    """Look at what the checkpoint was trained with, and at what the run says of itself."""
    model, _ = read_checkpoint(directory / "checkpoints")
    assert isinstance(model, keras.Model)
    assert isinstance(model.loss, RDropCrossentropy)
    assert (model.loss.weight, model.loss.normalize) == (5.0, False)
    optimizer = model.optimizer
    assert (optimizer.global_clipnorm, optimizer.ema_momentum, optimizer.use_ema) == (1.0, 0.9, True)
    assert optimizer.gradient_accumulation_steps == 2
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    assert config["training"]["monitor"] == "exact_match"


def test_by_default_the_loss_chooses_and_nothing_is_averaged(trained: Path) -> None:
    model, state = read_checkpoint(trained / "runs/tiny/checkpoints")
    assert state.best_value == state.history["val_loss"][0]
    assert model is not None
    assert not model.optimizer.use_ema
    assert not (trained / "runs/tiny/checkpoints/recent").exists()


def test_an_interrupt_before_the_first_epoch(
    run: Callable, pairs_file: Path, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_training, "fit_model", interrupt)
    result = run("train", "--pairs", pairs_file, "--name", "stopped", *small)
    assert result.exit_code == 2
    assert "nothing to resume" in result.stderr.splitlines()[-1]
