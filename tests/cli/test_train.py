"""What `train` prints, how it goes on, and bad input: one line, status 2, nothing half written."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

import keras_transformer as kt
from trained_run import SMALL, flags

LIMIT = ["--epochs", "1"]


def refused(command: Callable, *words: object) -> str:
    """Return the one line that a command is refused with."""
    result = command("train", *words, *LIMIT)
    assert result.exit_code == 2, result.output
    assert not Path("saved_models").exists()
    assert not list(Path().rglob("*.keras"))
    return result.stderr.splitlines()[-1]


def write(path: str, content: bytes) -> str:
    Path(path).write_bytes(content)
    return path


def test_a_missing_file(command: Callable) -> None:
    write("there", b"a\n")
    assert "missing" in refused(command, "--source", "missing", "--target", "there")


def test_an_empty_file(command: Callable) -> None:
    line = refused(command, "--source", write("a", b""), "--target", write("b", b"x\n"))
    assert "a" in line
    assert "empty" in line


def test_different_numbers_of_lines(command: Callable) -> None:
    line = refused(command, "--source", write("a", b"1\n2\n"), "--target", write("b", b"1\n2\n3\n"))
    assert "2" in line
    assert "3" in line


def test_invalid_utf8_says_where(command: Callable) -> None:
    line = refused(command, "--source", write("a", b"one\ntw\xff\n"), "--target", write("b", b"1\n2\n"))
    assert "a:2" in line


def test_a_damaged_gz(command: Callable) -> None:
    damaged = gzip.compress(b"a\n" * 100)[:-9]
    assert "a.gz" in refused(command, "--source", write("a.gz", damaged), "--target", write("b", b"1\n"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--preset", "huge"], "'huge' is not one of"),
        (["--schedule", "step"], "'step' is not one of"),
        (["--num-heads", "3", "--hidden-dim", "8"], "num_heads=3, hidden_dim=8"),
        (["--dropout", "1.5"], "1.5"),
        (["--epochs", "0"], "0"),
        (["--hidden-dim", "wide"], "'wide' is not a valid integer"),
        (["--tokens-per-batch", "2"], "tokens_per_batch=2"),
        (["--no-such-option"], "--no-such-option"),
        (["--name", "a/b"], "name='a/b'"),
        (["--size", "3"], "size=3"),
    ],
)
def test_unknown_values(command: Callable, pairs_file: Path, words: list[str], expected: str) -> None:
    result = command("train", "--pairs", pairs_file, "--kind", "character", *words)
    assert result.exit_code == 2
    assert expected in result.stderr.splitlines()[-1]
    assert not list(Path().rglob("*.keras"))


def test_only_one_file_of_two(command: Callable) -> None:
    assert "target" in refused(command, "--source", write("a", b"1\n"))


def test_pairs_and_files_together(command: Callable, pairs_file: Path) -> None:
    files = ["--source", write("a", b"1\n"), "--target", write("b", b"1\n")]
    assert "pairs" in refused(command, "--pairs", pairs_file, *files)


def test_a_config_with_an_unknown_field(command: Callable) -> None:
    line = refused(command, "--config", write("run.toml", b"[training]\nepoch = 3\n"))
    assert "run.toml" in line
    assert "epoch" in line


def test_every_pair_too_long(command: Callable, pairs_file: Path) -> None:
    line = refused(command, "--pairs", pairs_file, "--kind", "character", "--max-target-length", "3")
    assert "38 targets over 3 tokens" in line


def test_flags_of_a_resumed_run_are_not_those_of_the_dates(command: Callable) -> None:
    assert "holds no run" in refused(command, "--name", "x", "--resume", "--subword-dropout", "0.1")


def test_the_same_command_finds_the_run_that_it_began(command: Callable) -> None:
    assert "runs/model holds no run" in refused(command, "--source", "a", "--target", "b", "--resume")
    assert "runs/dates holds no run" in refused(command, "--resume")


def test_nothing_to_resume(command: Callable) -> None:
    assert "holds no run" in refused(command, "--resume")


def test_a_place_that_cannot_be_written(command: Callable, pairs_file: Path) -> None:
    write("file", b"no directory")
    assert "file" in refused(command, "--pairs", pairs_file, "--run-directory", "file/runs")


def test_it_shows_scores_outputs_and_what_to_type_next(trained: Path) -> None:
    output = (trained / "output.txt").read_text(encoding="utf-8")
    for part in ("exact match", "outputs (score", "wrote ", "saved_model_cli show", "translate"):
        assert part in output
    assert (trained / "saved_models/tiny/1/saved_model.pb").exists()


@pytest.mark.slow
def test_the_last_line_says_how_to_go_on_where_the_loss_still_falls(command: Callable, trained: Path) -> None:
    shutil.copytree(trained / "runs", "runs")
    result = command("train", *flags(name="tiny", epochs=3), "--resume", "--no-export")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[-1] == (
        "The validation loss was still falling in epoch 3; go on with: "
        "keras-transformer train --name tiny --resume --epochs 6"
    )
    goes_on = command(*result.stderr.rpartition("keras-transformer ")[2].split(), "--no-export")
    assert goes_on.exit_code == 0, goes_on.output
    assert kt.Run.open("runs/tiny").num_epochs == 6


@pytest.mark.slow
def test_without_an_export_it_says_how_to_make_one_and_what_failed(command: Callable, trained: Path) -> None:
    shutil.copytree(trained / "runs", "runs")
    result = command("train", *flags(name="tiny", export_directory="saved_models"), "--resume", "--no-export")
    assert result.exit_code == 0, result.output
    *_, advice, warning = result.stderr.splitlines()
    assert advice.endswith("keras-transformer export runs/tiny saved_models/tiny")
    assert warning.startswith("Warning: All 2 outputs are ")
    assert json.loads(Path("runs/tiny/report.json").read_text(encoding="utf-8"))["warning"] in warning
    assert "next:" not in result.stdout
    assert not Path("saved_models").exists()


@pytest.mark.slow
def test_the_same_command_goes_on_where_it_was_interrupted(
    command: Callable, pairs_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = keras.Model.fit

    class Interrupt(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            if epoch == 1:
                raise KeyboardInterrupt

    def interrupted(model: Any, *arguments: Any, callbacks: list[Any], **options: Any) -> Any:
        return fit(model, *arguments, callbacks=[Interrupt(), *callbacks], **options)

    with monkeypatch.context() as patch:
        patch.setattr(keras.Model, "fit", interrupted)
        words = flags(pairs=pairs_file, name="stopped", positions="rotary", **{**SMALL, "epochs": 3})
        result = command("train", *words)
    assert result.exit_code == 2
    wanted = "Epoch 1 of 3 is saved; go on with: keras-transformer train --name stopped --resume"
    assert wanted in result.stderr.splitlines()[-1]
    assert "training pairs, for example:" in result.stderr
    # The verb compares the outputs of what it wrote with the translator's before it ends.
    result = command("train", "--name", "stopped", "--resume", "--epochs", "2")
    assert result.exit_code == 0, result.output
    assert "epoch 2:" in result.stderr
    assert "epoch 1:" not in result.stderr
    assert kt.Run.open("runs/stopped").num_epochs == 2
    assert Path("saved_models/stopped/1/saved_model.pb").exists()


def test_an_interrupt_before_the_first_epoch(
    command: Callable, pairs_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(keras.Model, "fit", interrupt)
    result = command("train", *flags(pairs=pairs_file, name="stopped", **SMALL))
    assert result.exit_code == 2
    assert "nothing to resume" in result.stderr.splitlines()[-1]


def test_a_refused_run_leaves_the_one_it_was_to_replace(
    command: Callable, trained: Path, pairs_file: Path
) -> None:
    shutil.copytree(trained / "runs", "runs")
    words = flags(pairs=pairs_file, name="tiny", **{**SMALL, "max_target_length": 3})
    result = command("train", *words, "--overwrite")
    assert result.exit_code == 2
    assert "38 targets over 3 tokens" in result.stderr.splitlines()[-1]
    assert Path("runs/tiny/model.keras").exists()
    assert [path.name for path in Path("runs").iterdir()] == ["tiny"]


@pytest.mark.slow
@pytest.mark.backend
def test_on_another_backend_all_but_the_export_is_done(pairs_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="the extra `jax` is not installed")
    words = ["train", *flags(pairs=pairs_file, name="tiny", **SMALL)]
    finished = subprocess.run(
        [sys.executable, "-c", "from keras_transformer_cli import main; main()", *words],
        env={**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "KERAS_BACKEND=tensorflow keras-transformer export runs/tiny saved_models/tiny" in finished.stderr
    assert json.loads((tmp_path / "runs/tiny/report.json").read_text(encoding="utf-8"))["num_items"] == 2
