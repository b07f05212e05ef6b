"""Checkpoints: which files stay, what a failure leaves, and how a run goes on."""

import errno
import hashlib
import math
from collections.abc import Callable
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
    NoamSchedule,
    backend_random_state,
    random_state,
    read_checkpoint,
    read_state,
    set_backend_random_state,
)

X, Y = np.linspace(0, 1, 16).reshape(8, 2).astype("float32"), np.ones((8, 1), "float32")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, model: keras.Model) -> None:
    """Let `model.save` write half a file and fail."""

    def save(path: Path, **options: Any) -> None:
        path.write_bytes(b"PK half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model, "save", save)


def test_the_best_and_the_last_two_stay(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    checkpoint = Checkpoint(tmp_path / "new" / "directory")
    run_epochs(checkpoint, model, [3.0, 1.0, 2.0, 1.5])
    kept = ["epoch-0002.keras", "epoch-0003.keras", "epoch-0004.keras"]
    assert files(checkpoint.directory) == [*kept, "state-before.json", "state.json"]
    assert read_state(checkpoint.directory) == CheckpointState(
        epoch=4,
        last_file="epoch-0004.keras",
        best_file="epoch-0002.keras",
        best_epoch=2,
        best_value=1.0,
        monitor="val_loss",
        history={"loss": [6.0, 2.0, 4.0, 3.0], "val_loss": [3.0, 1.0, 2.0, 1.5]},
        sha256={name: sha256(checkpoint.directory / name) for name in (kept[0], kept[2])},
        backend_random_state=backend_random_state(),
        num_parameters=3,
        optimizer="Adam",
    )


def test_two_files_where_the_last_is_the_best(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [4.0, 3.0, 2.0])
    assert files(tmp_path) == ["epoch-0002.keras", "epoch-0003.keras", "state-before.json", "state.json"]


def test_what_a_killed_process_left_is_removed(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    for name in (".partial-1-epoch-0007.keras", ".partial-2-state.json", "epoch-0008.keras", "notes.txt"):
        (tmp_path / name).write_bytes(b"half")
    run_epochs(Checkpoint(tmp_path), model, [1.0])
    assert files(tmp_path) == ["epoch-0001.keras", "notes.txt", "state.json"]


def test_another_metric_can_be_monitored(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    checkpoint = Checkpoint(tmp_path, monitor="loss")
    run_epochs(checkpoint, model, [3.0, 4.0])
    assert checkpoint.state.best_value == 6.0


def test_numbers_that_only_some_epochs_have_are_kept(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.set_model(model)
    for epoch, logs in enumerate(({"val_loss": 3.0, "early": 1.0}, {"val_loss": 2.0, "late": 5.0})):
        checkpoint.on_epoch_end(epoch, logs)
    history = read_state(tmp_path).history
    assert history["val_loss"] == [3.0, 2.0]
    np.testing.assert_equal([history["early"], history["late"]], [[1.0, np.nan], [np.nan, 5.0]])


def test_what_is_no_number_is_never_the_best(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    checkpoint = Checkpoint(tmp_path)
    run_epochs(checkpoint, model, [math.nan, 2.0, math.nan])
    assert (checkpoint.state.best_file, checkpoint.state.best_value) == ("epoch-0002.keras", 2.0)
    state = read_state(tmp_path)
    assert state is not None
    assert math.isnan(state.history["val_loss"][2])


def test_a_metric_that_is_not_there_is_named(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    checkpoint = Checkpoint(tmp_path, monitor="val_bleu")
    with pytest.raises(ValueError, match=r"one of loss, val_loss\. Received: monitor='val_bleu'\."):
        run_epochs(checkpoint, model, [1.0])
    assert files(tmp_path) == []


def test_a_full_disk_leaves_the_earlier_state(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0, 2.0, 2.5])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fill_the_disk(monkeypatch, model)
    checkpoint = Checkpoint(tmp_path, state=read_state(tmp_path))
    with pytest.raises(OSError, match="No space left on device"):
        run_epochs(checkpoint, model, [1.0], start=3)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert checkpoint.state == read_state(tmp_path)


def test_a_state_that_cannot_be_written_leaves_the_earlier_one(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0])
    state = read_state(tmp_path)

    def write_bytes(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(InputError, match=r"state-before\.json: No space left on device"):
        run_epochs(Checkpoint(tmp_path, state=state), model, [2.0], start=1)
    assert read_state(tmp_path) == state
    assert {"epoch-0001.keras", "state.json"} <= set(files(tmp_path))
    assert not [name for name in files(tmp_path) if name.startswith(".")]


def test_a_resumed_run_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    """Adam, a schedule and dropout: each has a state that the next batches depend on."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(NoamSchedule(hidden_dim=8, warmup_steps=5)), loss="mse")
    options: dict[str, Any] = {"batch_size": 4, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    model.fit(X, Y, epochs=2, callbacks=[Checkpoint(tmp_path)], **options)
    backend_state = backend_random_state()
    # Whatever happens in between: torch has one generator for all layers without a seed.
    keras.layers.Dropout(0.5)(X, training=True)
    resumed, state = read_checkpoint(tmp_path)
    assert resumed is not None
    assert int(resumed.optimizer.iterations) == 4
    assert random_state(resumed) == random_state(model) != [[0, 0]]
    checkpoint = Checkpoint(tmp_path, state=state)
    resumed.fit(X, Y, initial_epoch=state.epoch, epochs=4, callbacks=[checkpoint], **options)
    set_backend_random_state(backend_state)
    model.fit(X, Y, initial_epoch=2, epochs=4, **options)
    assert int(resumed.optimizer.iterations) == int(model.optimizer.iterations) == 8
    for old, new in zip(
        [*model.variables, *model.optimizer.variables],
        [*resumed.variables, *resumed.optimizer.variables],
        strict=True,
    ):
        np.testing.assert_array_equal(ops.convert_to_numpy(old), ops.convert_to_numpy(new))
    assert checkpoint.state.epoch == 4
    assert [len(values) for values in checkpoint.state.history.values()] == [4, 4]


def test_files_of_others_stay(run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path) -> None:
    names = ["epoch-01.keras", "epoch-my-own.keras"]
    for name in names:
        (tmp_path / name).write_bytes(b"of the user")
    run_epochs(Checkpoint(tmp_path), model, [2.0, 1.0])
    assert set(names) <= set(files(tmp_path))


def test_an_earlier_run_is_not_replaced_by_accident(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [2.0, 1.0])
    with pytest.raises(InputError, match=r"another run\. Go on with it by `state=read_checkpoint"):
        Checkpoint(tmp_path)
    run_epochs(Checkpoint(tmp_path, state=CheckpointState()), model, [3.0])
    assert read_state(tmp_path).epoch == 1


def test_an_epoch_that_is_saved_is_not_replaced(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, monitor="loss")
    options: dict[str, Any] = {"epochs": 2, "verbose": 0, "callbacks": [checkpoint]}
    model.fit(X, Y, **options)
    before = sha256(tmp_path / "epoch-0001.keras")
    with pytest.raises(
        InputError, match=r"2 epochs already\. Go on by `initial_epoch=.* Received: epoch 1\."
    ):
        model.fit(X, Y, **options)
    assert sha256(tmp_path / "epoch-0001.keras") == before
    model.fit(X, Y, initial_epoch=checkpoint.state.epoch, **{**options, "epochs": 3})
    assert checkpoint.state.epoch == len(checkpoint.state.history["loss"]) == 3
