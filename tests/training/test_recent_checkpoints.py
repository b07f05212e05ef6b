"""Which checkpoints are kept beside the last and the best."""

import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.training import (
    Checkpoint,
    CheckpointState,
    CheckpointWarning,
    KeepRecent,
    average_recent,
    read_state,
)


def run(directory: Path, num: int, epochs: int, state: CheckpointState | None = None) -> keras.Model:
    """Save epochs whose weight is the epoch's number."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    checkpoint = Checkpoint(directory, monitor="loss", state=state)
    recent = KeepRecent(checkpoint, num)
    for callback in (checkpoint, recent):
        callback.set_model(model)
    for epoch in range(epochs):
        model.set_weights([np.array([[epoch + 1.0]])])
        checkpoint.on_epoch_end(epoch, {"loss": float(epoch)})
        recent.on_epoch_end(epoch)
    return model


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_last_epochs_are_kept(tmp_path: Path) -> None:
    run(tmp_path, num=2, epochs=4)
    files = [f"epoch-{epoch:04d}.keras" for epoch in (1, 3, 4)]
    assert names(tmp_path) == [*files, "recent", "state-before.json", "state.json"]
    assert names(tmp_path / "recent") == ["epoch-0003.keras", "epoch-0004.keras"]
    assert average_recent(tmp_path, 2).get_weights()[0].item() == 3.5
    assert average_recent(tmp_path, 1).get_weights()[0].item() == 4


def test_fewer_epochs_are_averaged_where_fewer_are_there(tmp_path: Path) -> None:
    run(tmp_path, num=5, epochs=3)
    assert average_recent(tmp_path, 5).get_weights()[0].item() == 2


def test_an_epoch_that_was_saved_and_not_kept_is_kept_when_the_run_goes_on(tmp_path: Path) -> None:
    run(tmp_path, num=2, epochs=2)
    (tmp_path / "recent/epoch-0002.keras").unlink()
    KeepRecent(Checkpoint(tmp_path, monitor="loss", state=read_state(tmp_path)), 2).on_train_begin()
    assert names(tmp_path / "recent") == ["epoch-0001.keras", "epoch-0002.keras"]
    KeepRecent(Checkpoint(tmp_path / "new"), 2).on_train_begin()
    assert names(tmp_path / "new") == []


def test_a_second_name_costs_no_space_and_a_copy_serves_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "linked", num=1, epochs=1)
    assert (tmp_path / "linked/recent/epoch-0001.keras").samefile(tmp_path / "linked/epoch-0001.keras")

    def refuse(*arguments: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    run(tmp_path / "copied", num=1, epochs=2)
    assert names(tmp_path / "copied/recent") == ["epoch-0002.keras"]
    assert average_recent(tmp_path / "copied", 1).get_weights()[0].item() == 2


def test_an_epoch_that_is_done_again_replaces_the_old_one(tmp_path: Path) -> None:
    for state in (None, CheckpointState()):
        run(tmp_path, num=2, epochs=2, state=state)
        assert names(tmp_path / "recent") == ["epoch-0001.keras", "epoch-0002.keras"]


def test_wrong_numbers_and_nothing_to_average(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`num` must be above zero\. Received: num=0\."):
        KeepRecent(Checkpoint(tmp_path), 0)
    with pytest.raises(InputError, match=r"recent holds no checkpoints to average\."):
        average_recent(tmp_path, 3)


def test_epochs_of_an_earlier_run_are_not_averaged(tmp_path: Path) -> None:
    run(tmp_path, num=2, epochs=4)
    run(tmp_path, num=2, epochs=1, state=CheckpointState())
    assert names(tmp_path / "recent") == ["epoch-0001.keras"]


def test_a_damaged_file_is_left_out_of_the_average(tmp_path: Path) -> None:
    run(tmp_path, num=3, epochs=3)
    (tmp_path / "recent/epoch-0002.keras").write_bytes(b"half")
    with pytest.warns(CheckpointWarning, match=r"epoch-0002\.keras .* It is left out of the average"):
        assert average_recent(tmp_path, 3).get_weights()[0].item() == 2
    (tmp_path / "recent/epoch-0003.keras").write_bytes(b"half")
    with pytest.warns(CheckpointWarning, match=r"epoch-000[23]\.keras"):
        assert average_recent(tmp_path, 3).get_weights()[0].item() == 1
    (tmp_path / "recent/epoch-0001.keras").write_bytes(b"half")
    with pytest.raises(InputError, match=r"epoch-0001\.keras cannot be read"):
        average_recent(tmp_path, 3)
