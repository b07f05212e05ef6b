"""The options of the recipe, in one run that has them all."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.decoding import Translator
from keras_transformer.errors import InputError
from keras_transformer.evaluation import METRICS
from keras_transformer.runs import train as run_training
from keras_transformer.runs import train as training_run
from keras_transformer.runs.config import MONITORS
from keras_transformer.training import Checkpoint, RDropCrossentropy

RECIPE = [
    *("--epochs", "3", "--monitor", "exact_match", "--monitored-pairs", "1", "--patience", "2"),
    *("--average-last", "2", "--ema-momentum", "0.9", "--r-drop", "5", "--clip-norm", "1"),
    *("--gradient-accumulation-steps", "2", "--tokens-per-batch", "64", "--beam-size", "1"),
    *("--precision", "mixed_bfloat16"),
]


def test_what_can_be_monitored_is_the_loss_and_every_metric() -> None:
    assert sorted(MONITORS) == sorted(["loss", *METRICS])


@pytest.mark.slow
def test_every_option_of_the_recipe_at_once(
    run: Callable, pairs_file: Path, small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any, **options: Any) -> None:
        raise InputError("the rest has its own tests")

    monkeypatch.setattr(training_run, "score", stop)
    result = run("train", "--pairs", pairs_file, "--name", "recipe", *small, *RECIPE)
    assert "the rest has its own tests" in result.stderr.splitlines()[-1], result.output
    directory = tmp_path / "runs/recipe"
    checkpoint = Checkpoint(directory)
    # The untrained model is never right: the first epoch stays the best, and the run stops after two more.
    assert (checkpoint.epoch, checkpoint.best_epoch) == (3, 1)
    assert "val_exact_match 0.0000" in result.stderr
    assert "the mean of the last 2 epochs" in result.stderr
    kept = sorted(path.name for path in directory.glob("checkpoints/*.keras"))
    assert kept == ["epoch-0001.keras", "epoch-0002.keras", "epoch-0003.keras"]
    with (directory / "training.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert all(float(row["tokens_per_second"]) > 0 and 0 <= float(row["padding"]) < 1 for row in rows)
    model = checkpoint.load_model()
    check_compiled(model)
    assert model.get_config()["dtype"]["config"]["name"] == "mixed_bfloat16"
    assert Translator.load(directory).model.get_config()["dtype"]["config"]["name"] == "float32"
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    assert config["training"]["monitor"] == "exact_match"


def check_compiled(model: Any) -> None:
    """Look at what a model is trained with."""
    assert isinstance(model.loss, RDropCrossentropy)
    assert (model.loss.weight, model.loss.normalize) == (5.0, False)
    optimizer = model.optimizer
    assert (optimizer.global_clipnorm, optimizer.ema_momentum, optimizer.use_ema) == (1.0, 0.9, True)
    assert optimizer.gradient_accumulation_steps == 2


@pytest.mark.slow
def test_packed_rows_train_a_translator_of_single_texts(
    run: Callable, pairs_file: Path, small: list[str], tmp_path: Path
) -> None:
    result = run("train", "--pairs", pairs_file, "--name", "packed", *small, "--packed-length", "64")
    assert result.exit_code == 0, result.output
    translator = Translator.load(tmp_path / "runs/packed")
    assert translator.model.config.packed
    assert len(translator.translate(["a b"])) == 1


@pytest.mark.slow
def test_options_reach_fit(
    run: Callable, pairs_file: Path, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def interrupt(model: Any, training: Any, validation: Any, **options: Any) -> None:
        given.update(options, model=model, training=training)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_training, "fit_model", interrupt)
    run("train", "--pairs", pairs_file, "--name", "recipe", *small, *RECIPE)
    check_compiled(given["model"])
    scoring = given["scoring"]
    assert (scoring.metric, scoring.monitor) == ("exact_match", "val_exact_match_loss")
    assert len(scoring.sources) == 1
    assert (given["epochs"], given["patience"], given["average_last"]) == (3, 2, 2)
    *_, weights = next(iter(given["training"]))
    assert len(set(weights.numpy())) == 1


def test_choices_of_a_file_reach_the_model(
    run: Callable, pairs_file: Path, small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = []

    def interrupt(model: Any, *arguments: Any, **options: Any) -> None:
        models.append(model)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_training, "fit_model", interrupt)
    choices = {"positions": "rotary", "normalization": "rms", "gated": True, "num_key_value_heads": 1}
    lines = [f"{name} = {json.dumps(value)}" for name, value in choices.items()]
    path = tmp_path / "choices.toml"
    path.write_text("\n".join(["[data]", 'pairs = "pairs.tsv"', "[model]", *lines]), encoding="utf-8")
    run("train", "--config", path, *small, "--positions", "relative")
    config = models[0].config
    assert {name: getattr(config, name) for name in choices} == {**choices, "positions": "relative"}


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_positions_from_pairs_to_the_served_model(
    run: Callable, pairs_file: Path, small: list[str], tmp_path: Path, positions: str
) -> None:
    # The verb compares the answers of what it wrote with the translator's before it ends.
    result = run("train", "--pairs", pairs_file, "--name", "served", *small, "--positions", positions)
    assert result.exit_code == 0, result.output
    assert Translator.load(tmp_path / "runs/served").model.config.positions == positions
    assert (tmp_path / "saved_models/served/1/saved_model.pb").exists()


def test_an_interrupt_before_the_first_epoch(
    run: Callable, pairs_file: Path, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_training, "fit_model", interrupt)
    result = run("train", "--pairs", pairs_file, "--name", "stopped", *small)
    assert result.exit_code == 2
    assert "nothing to resume" in result.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_run_claims_the_cores_in_time(small: list[str], pairs_file: Path, tmp_path: Path) -> None:
    options = ["--pairs", str(pairs_file), "--name", "cores", "--distribute", "cores", *small]
    words = [sys.executable, "-c", "from keras_transformer.cli import main; main()", "train", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Translator.load(tmp_path / "runs/cores").translate(["w1ab"])


def test_vocabularies_that_differ_share_no_embeddings(
    run: Callable, small: list[str], pairs_file: Path
) -> None:
    words = [*small, "--kind", "whitespace", "--share-embeddings"]
    result = run("train", "--pairs", pairs_file, "--name", "shared", *words)
    assert result.exit_code == 2
    assert "`share_embeddings` needs one vocabulary for both sides" in result.stderr.splitlines()[-1]
