"""Checkpoints: which files stay, what a failure leaves, and how a run goes on."""

import errno
import json
import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.training import (
    Checkpoint,
    CheckpointState,
    load_model,
    read_checkpoint,
    read_state,
    save_model,
)

X, Y = np.linspace(0, 1, 16).reshape(8, 2).astype("float32"), np.ones((8, 1), "float32")


@pytest.fixture
def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    return model


def run_epochs(checkpoint: Checkpoint, model: keras.Model, values: list[float], start: int = 0) -> None:
    checkpoint.set_model(model)
    for epoch, value in enumerate(values, start):
        checkpoint.on_epoch_end(epoch, {"loss": 2 * value, "val_loss": value})


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, model: keras.Model) -> None:
    """Let `model.save` write half a file and fail."""

    def save(path: Path, **options: Any) -> None:
        path.write_bytes(b"PK half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model, "save", save)


def test_the_best_and_the_last_stay(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new" / "directory")
    run_epochs(checkpoint, model, [3.0, 1.0, 2.0, 1.5])
    assert files(checkpoint.directory) == ["epoch-0002.keras", "epoch-0004.keras", "state.json"]
    assert read_state(checkpoint.directory) == CheckpointState(
        epoch=4,
        last_file="epoch-0004.keras",
        best_file="epoch-0002.keras",
        best_epoch=2,
        best_value=1.0,
        history={"loss": [6.0, 2.0, 4.0, 3.0], "val_loss": [3.0, 1.0, 2.0, 1.5]},
    )


def test_one_file_where_the_last_is_the_best(model: keras.Model, tmp_path: Path) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0, 2.0])
    assert files(tmp_path) == ["epoch-0002.keras", "state.json"]


def test_another_metric_can_be_monitored(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, monitor="loss")
    run_epochs(checkpoint, model, [3.0, 4.0])
    assert checkpoint.state.best_value == 6.0


def test_what_is_no_number_is_never_the_best(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    run_epochs(checkpoint, model, [math.nan, 2.0, math.nan])
    assert (checkpoint.state.best_file, checkpoint.state.best_value) == ("epoch-0002.keras", 2.0)
    state = read_state(tmp_path)
    assert state is not None
    assert math.isnan(state.history["val_loss"][2])


def test_a_metric_that_is_not_there_is_named(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, monitor="val_bleu")
    with pytest.raises(ValueError, match=r"one of loss, val_loss\. Received: monitor='val_bleu'\."):
        run_epochs(checkpoint, model, [1.0])
    assert files(tmp_path) == []


def test_a_full_disk_leaves_the_earlier_state(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0, 2.0, 2.5])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fill_the_disk(monkeypatch, model)
    checkpoint = Checkpoint(tmp_path, state=read_state(tmp_path))
    with pytest.raises(OSError, match="No space left on device"):
        run_epochs(checkpoint, model, [1.0], start=3)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert checkpoint.state == read_state(tmp_path)


def test_saving_over_a_file_leaves_it_whole(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.keras"
    save_model(model, path)
    before = path.read_bytes()
    fill_the_disk(monkeypatch, model)
    with pytest.raises(OSError, match="No space left on device"):
        save_model(model, path)
    assert files(tmp_path) == ["model.keras"]
    assert path.read_bytes() == before


def test_a_state_that_cannot_be_written_leaves_the_earlier_one(
    model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0])
    state = read_state(tmp_path)

    def write_bytes(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(InputError, match=r"state\.json: No space left on device"):
        run_epochs(Checkpoint(tmp_path, state=state), model, [2.0], start=1)
    assert read_state(tmp_path) == state
    assert {"epoch-0001.keras", "state.json"} <= set(files(tmp_path))
    assert not [name for name in files(tmp_path) if name.startswith(".")]


def test_a_run_without_an_epoch_has_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    assert read_state(tmp_path / "absent") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"3", b'{"epochs": 3}', b"\xff{}", b'{"epoch": "3"}', b'{"history": [1]}'],
)
def test_a_damaged_state_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(content)
    with pytest.raises(InputError, match=r"state\.json is damaged: ") as caught:
        read_state(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_is_read_with_its_state(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    model.train_on_batch(X, Y)
    run_epochs(checkpoint, model, [1.0])
    best = ops.convert_to_numpy(model.weights[0]).copy()
    model.weights[0].assign(best + 1)
    run_epochs(checkpoint, model, [2.0], start=1)
    for is_best, expected in ((True, best), (False, best + 1)):
        restored, state = read_checkpoint(tmp_path, best=is_best)
        assert restored is not None
        assert state == checkpoint.state
        np.testing.assert_array_equal(ops.convert_to_numpy(restored.weights[0]), expected)


def test_a_new_run_has_no_checkpoint(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) == (None, CheckpointState())


@pytest.mark.parametrize("content", [None, b"", b"PK half", b"\x00" * 1000])
def test_a_damaged_model_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"model\.keras cannot be read as a Keras model: ") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


def test_a_resumed_run_goes_on_as_if_never_stopped(model: keras.Model, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 4, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    model.fit(X, Y, epochs=2, callbacks=[Checkpoint(tmp_path)], **options)
    resumed, state = read_checkpoint(tmp_path)
    assert resumed is not None
    assert int(resumed.optimizer.iterations) == 4
    checkpoint = Checkpoint(tmp_path, state=state)
    resumed.fit(X, Y, initial_epoch=state.epoch, epochs=3, callbacks=[checkpoint], **options)
    model.fit(X, Y, initial_epoch=2, epochs=3, **options)
    assert int(resumed.optimizer.iterations) == int(model.optimizer.iterations) == 6
    for old, new in zip(model.weights, resumed.weights, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(old), ops.convert_to_numpy(new))
    assert checkpoint.state.epoch == 3
    assert [len(values) for values in checkpoint.state.history.values()] == [3, 3]


def test_the_state_is_plain_json(model: keras.Model, tmp_path: Path) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0])
    assert json.loads((tmp_path / "state.json").read_text())["epoch"] == 1
