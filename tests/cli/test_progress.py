"""Progress goes to standard error."""

import pytest

from keras_transformer.cli.progress import EpochProgress, progress_bar


def test_an_epoch_says_what_it_reached(capsys: pytest.CaptureFixture[str]) -> None:
    callback = EpochProgress()
    callback.set_params({"epochs": 3, "steps": 2})
    callback.on_epoch_begin(0)
    callback.on_train_batch_end(0, {"loss": 1.0})
    callback.on_epoch_end(0, {"loss": 0.5, "accuracy": 0.25, "val_loss": 0.75})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "epoch 1: loss 0.5000  accuracy 0.2500  val_loss 0.7500" in captured.err


def test_a_bar_takes_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(3, "counting") as progress:
        progress(1)
        progress(2)
    assert capsys.readouterr().out == ""
