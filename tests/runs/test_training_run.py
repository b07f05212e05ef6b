"""What `train` leaves behind, going on after a stop, and not losing what is there."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.runs.data import encode, load_pairs
from keras_transformer.runs.directory import run_tokenizers, saved_run
from keras_transformer.runs.train import fit
from keras_transformer.training import Checkpoint


def test_it_writes_what_it_promises(trained: Path) -> None:
    names = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()}
    assert names >= {
        "runs/tiny/attention.png",
        "runs/tiny/config.json",
        "runs/tiny/model.keras",
        "runs/tiny/report.json",
        "runs/tiny/source_tokenizer/vocabulary.txt",
        "runs/tiny/training.png",
        "runs/tiny/checkpoints/state.json",
        "saved_models/tiny/1/saved_model.pb",
    }
    assert not [name for name in names if "partial" in name]


def test_it_shows_samples_scores_answers_and_what_to_type_next(trained: Path) -> None:
    output = (trained / "output.txt").read_text(encoding="utf-8")
    for part in ("training pairs", "exact match", "answers (score", "saved_model_cli show", "translate"):
        assert part in output


def test_the_report_is_the_table(trained: Path) -> None:
    report = json.loads((trained / "runs/tiny/report.json").read_text(encoding="utf-8"))
    assert 0 <= report["scores"]["exact_match"]["value"] <= 1
    assert report["num_items"] == 2  # 5 % of 40 pairs are held out


def test_by_default_the_loss_chooses_and_nothing_is_averaged(trained: Path) -> None:
    checkpoint = Checkpoint(trained / "runs/tiny")
    assert (checkpoint.monitor, checkpoint.best_epoch) == ("val_loss", 1)
    assert not checkpoint.load_model().optimizer.use_ema


def test_a_run_is_not_overwritten_by_accident(
    run: Callable, trained: Path, pairs_file: Path, small: list[str]
) -> None:
    words = ["--pairs", pairs_file, "--name", "tiny", "--run-directory", trained / "runs", *small]
    result = run("train", *words)
    assert result.exit_code == 2
    assert "holds a run already" in result.stderr
    assert Checkpoint(trained / "runs/tiny").epoch == 1


def test_a_refused_run_leaves_the_one_it_was_to_replace(
    run: Callable, trained: Path, pairs_file: Path, small: list[str], tmp_path: Path
) -> None:
    shutil.copytree(trained / "runs", tmp_path / "runs")
    words = ["--pairs", pairs_file, "--name", "tiny", *small, "--num-heads", "3", "--overwrite"]
    result = run("train", *words)
    assert result.exit_code == 2
    assert "num_heads" in result.stderr.splitlines()[-1]
    assert (tmp_path / "runs/tiny/model.keras").exists()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["tiny"]


def test_a_resumed_run_refuses_another_recipe(run: Callable, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "runs", tmp_path / "runs")
    result = run("train", "--name", "tiny", "--resume", "--peak-learning-rate", "0.5")
    assert result.exit_code == 2
    assert "training.peak_learning_rate=0.5 after 0.001" in result.stderr.splitlines()[-1]


@pytest.mark.slow
def test_resume_goes_on(run: Callable, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "runs", tmp_path / "runs")
    result = run("train", "--name", "tiny", "--resume", "--epochs", "2")
    assert result.exit_code == 0, result.output
    checkpoint = Checkpoint(tmp_path / "runs/tiny")
    assert checkpoint.epoch == 2
    assert len(checkpoint.history["loss"]) == 2
    assert saved_run(tmp_path / "runs/tiny").training.epochs == 2
    assert "epoch 2:" in result.stderr
    assert "epoch 1:" not in result.stderr


@pytest.mark.slow
def test_all_devices_are_asked_for(run: Callable, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "runs", tmp_path / "runs")
    configuration = tmp_path / "runs/tiny/config.json"
    content = json.loads(configuration.read_text())
    for engine, status in (("data_parallel", 2), ("mirrored", 0)):
        content["training"]["distribute"] = engine
        configuration.write_text(json.dumps(content))
        result = run("train", "--name", "tiny", "--resume", "--epochs", "2")
        assert result.exit_code == status, result.output
        if status:
            assert "data_parallel is an engine of the jax backend." in result.stderr
    assert Checkpoint(tmp_path / "runs/tiny").epoch == 2


def fit_with(monkeypatch: pytest.MonkeyPatch, callback: keras.callbacks.Callback) -> None:
    """Let `fit` call one more callback, before its own."""
    fit = keras.Model.fit

    def patched(self: Any, *arguments: Any, callbacks: list[Any], **options: Any) -> Any:
        return fit(self, *arguments, callbacks=[callback, *callbacks], **options)

    monkeypatch.setattr(keras.Model, "fit", patched)


@pytest.mark.slow
@pytest.mark.backend
def test_on_another_backend_all_but_the_export_is_done(
    small: list[str], pairs_file: Path, tmp_path: Path
) -> None:
    pytest.importorskip("jax", reason="the extra `jax` is not installed")
    words = ["train", "--pairs", pairs_file, "--name", "tiny", "--distribute", "data_parallel", *small]
    script = "from keras_transformer.cli import main; main()"
    finished = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "KERAS_BACKEND=tensorflow keras-transformer export runs/tiny saved_models/tiny" in finished.stderr
    report = json.loads((tmp_path / "runs/tiny/report.json").read_text(encoding="utf-8"))
    assert report["saved_model"] is None


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run(
    run: Callable, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LoseWeights(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            for variable in self.model.trainable_variables:
                variable.assign(np.full(variable.shape, np.nan))

    shutil.copytree(trained / "runs", tmp_path / "runs")
    checkpoints = tmp_path / "runs/tiny/checkpoints"
    before = {path.name: path.read_bytes() for path in checkpoints.iterdir()}
    fit_with(monkeypatch, LoseWeights())
    result = run("train", "--name", "tiny", "--resume", "--epochs", "2")
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert "Error: The loss must be finite. Received: loss=nan after batch 1 of epoch 2, step " in line
    assert {path.name: path.read_bytes() for path in checkpoints.iterdir()} == before


@pytest.mark.parametrize("deterministic", [False, True])
def test_tensorflow_is_told_to_be_deterministic(
    deterministic: bool, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told in earnest it would stay so for all tests of this process."""
    told: list[bool] = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: told.append(True))
    shutil.copytree(trained / "runs", tmp_path / "runs")
    directory = tmp_path / "runs/tiny"
    configured = saved_run(directory).override({"deterministic": deterministic})
    pairs = load_pairs(configured.data)
    tokenizers = run_tokenizers(configured, directory, pairs.train)
    encoded = [encode(configured, part, tokenizers) for part in (pairs.train, pairs.validation)]
    history = fit(configured, directory, tokenizers, *encoded, pairs.validation)
    assert told == [True] * deterministic
    assert len(history["loss"]) == 1  # All epochs are done already.


@pytest.mark.slow
def test_ctrl_c_keeps_the_last_checkpoint(
    run: Callable, pairs_file: Path, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupt(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            if epoch == 1:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        fit_with(patch, Interrupt())
        result = run("train", "--pairs", pairs_file, "--name", "stopped", *small, "--epochs", "3")
    assert result.exit_code == 2
    assert (
        "Epoch 1 of 3 is saved; go on with: keras-transformer train --name stopped --resume" in result.stderr
    )
    assert run("train", "--name", "stopped", "--resume").exit_code == 0
    assert Checkpoint("runs/stopped").epoch == 3


@pytest.mark.slow
def test_a_full_disk_leaves_the_last_checkpoint(
    run: Callable, pairs_file: Path, small: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save = keras.Model.save

    def failing_save(self: Any, path: Path, *arguments: Any, **options: Any) -> None:
        if "0002" not in str(path):
            save(self, path, *arguments, **options)
            return
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(keras.Model, "save", failing_save)
    result = run("train", "--pairs", pairs_file, "--name", "full", *small, "--epochs", "3")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr.splitlines()[-1]
    checkpoints = Path("runs/full/checkpoints")
    assert Checkpoint("runs/full").epoch == 1
    assert sorted(path.name for path in checkpoints.iterdir()) == ["epoch-0001.keras", "state.json"]
