"""Checkpoints: which files stay, what a failure leaves, and how a run goes on."""

import errno
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from helpers import array
from keras_transformer.errors import InputError
from keras_transformer.training import Checkpoint, NoamSchedule, compile_model

X, Y = np.linspace(0, 1, 16).reshape(8, 2).astype("float32"), np.ones((8, 1), "float32")
RunEpochs = Callable[[Checkpoint, keras.Model, list[float]], None]


def files(directory: Path) -> list[str]:
    """The names in the folder of checkpoints."""
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "checkpoints").iterdir()}


def epochs(*numbers: int) -> list[str]:
    return [f"epoch-{number:04d}.keras" for number in numbers]


def test_the_newest_and_the_best_stay(run_epochs: RunEpochs, model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new" / "directory")
    run_epochs(checkpoint, model, [3.0, 1.0, 2.0, 1.5])
    assert files(checkpoint.directory) == [*epochs(2, 3, 4), "state.json"]
    for each in (checkpoint, Checkpoint(checkpoint.directory)):
        assert (each.epoch, each.best_epoch, each.monitor) == (4, 2, "val_loss")
        assert each.history == {"loss": [6.0, 2.0, 4.0, 3.0], "val_loss": [3.0, 1.0, 2.0, 1.5]}
    state = json.loads((checkpoint.directory / "checkpoints/state.json").read_text())
    assert {f"epoch-{saved['epoch']:04d}.keras": saved["sha256"] for saved in state["saved"]} == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in contents(checkpoint.directory).items()
        if name != "state.json"
    }


@pytest.mark.parametrize(
    ("values", "keep", "kept"),
    [
        ([4.0, 3.0, 2.0], 2, (2, 3)),
        ([1.0, 2.0, 3.0, 4.0], 3, (1, 2, 3, 4)),
        ([2.0, 3.0, 4.0, 1.0], 2, (1, 3, 4)),  # the best before, since the newest may be damaged
        ([2.0, 3.0, 4.0], 1, (1, 3)),
    ],
)
def test_which_epochs_stay(
    values: list[float],
    keep: int,
    kept: tuple[int, ...],
    run_epochs: RunEpochs,
    model: keras.Model,
    tmp_path: Path,
) -> None:
    run_epochs(Checkpoint(tmp_path, keep=keep), model, values)
    assert files(tmp_path) == [*epochs(*kept), "state.json"]


def test_what_a_killed_process_left_is_removed(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").mkdir()
    checkpoint = Checkpoint(tmp_path)
    mine = ["epoch-01.keras", "epoch-my-own.keras", "notes.txt"]
    for name in (".partial-12ab34cd-epoch-0007.keras", ".partial-12ab34cd-state.json", *epochs(8), *mine):
        (tmp_path / "checkpoints" / name).write_bytes(b"half")
    run_epochs(checkpoint, model, [1.0])
    assert files(tmp_path) == sorted([*epochs(1), *mine, "state.json"])


def test_a_table_has_a_row_for_each_epoch(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, monitor="loss")
    checkpoint.set_model(model)
    for epoch, logs in enumerate(({"loss": 3.5, "early": 1.0}, {"loss": 1e-9, "late": 5.0})):
        checkpoint.on_epoch_end(epoch, logs)
    np.testing.assert_equal(
        checkpoint.history, {"loss": [3.5, 1e-9], "early": [1.0, np.nan], "late": [np.nan, 5.0]}
    )
    table = (tmp_path / "training.csv").read_text(encoding="utf-8")
    assert table == "epoch,loss,late,early\n1,3.5,,1.0\n2,1e-09,5.0,\n"


def test_what_is_no_number_is_never_the_best(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [math.nan, 2.0, math.nan])
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.best_epoch == 2
    assert math.isnan(checkpoint.history["val_loss"][2])


def test_a_metric_that_is_not_there_is_named(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path
) -> None:
    checkpoint = Checkpoint(tmp_path, monitor="val_bleu")
    with pytest.raises(ValueError, match=r"one of loss, val_loss\. Received: monitor='val_bleu'\. The valid"):
        run_epochs(checkpoint, model, [1.0])
    assert list(tmp_path.iterdir()) == []


def test_training_stops_when_patience_is_over_a_stop_included(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path
) -> None:
    checkpoint = Checkpoint(tmp_path, patience=3)
    run_epochs(checkpoint, model, [1.0, 2.0])
    assert not model.stop_training
    checkpoint = Checkpoint(tmp_path, patience=3)
    assert checkpoint.is_over(2)
    assert not checkpoint.is_over(9)
    run_epochs(checkpoint, model, [2.0, 1.0])
    assert model.stop_training  # an equal value is no better
    assert checkpoint.is_over(9)


@pytest.mark.parametrize("name", ["keep", "patience"])
def test_numbers_are_above_zero(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must be above zero\. Received: {name}=0\."):
        Checkpoint(tmp_path, **{name: 0})
    with pytest.raises(TypeError, match=rf"`{name}` must be an integer\. Received: {name}=1\.5\."):
        Checkpoint(tmp_path, **{name: 1.5})


def test_a_full_disk_leaves_the_earlier_checkpoints(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(path: Path, **options: Any) -> None:
        path.write_bytes(b"PK half")
        raise OSError(errno.ENOSPC, "No space left on device")

    run_epochs(Checkpoint(tmp_path), model, [3.0, 2.0, 2.5])
    before, checkpoint = contents(tmp_path), Checkpoint(tmp_path)
    checkpoint.restore(model)
    monkeypatch.setattr(model, "save", save)
    with pytest.raises(InputError, match=r"Cannot write .*epoch-0004\.keras: No space left on device"):
        run_epochs(checkpoint, model, [1.0])
    assert contents(tmp_path) == before
    assert checkpoint.epoch == 3


def test_a_state_that_cannot_be_written_leaves_the_earlier_one(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_bytes(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    run_epochs(Checkpoint(tmp_path), model, [3.0])
    checkpoint = Checkpoint(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write_bytes)
        with pytest.raises(InputError, match="No space left on device"):
            run_epochs(checkpoint, model, [2.0])
    assert checkpoint.epoch == Checkpoint(tmp_path).epoch == 1
    # What is there of the second epoch is replaced when the run goes on.
    assert files(tmp_path) == [*epochs(1, 2), "state.json"]
    run_epochs(checkpoint, model, [2.0])
    assert Checkpoint(tmp_path).epoch == 2


def test_a_checkpoint_gets_its_name_when_it_is_whole(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed while it writes leaves a name that nobody takes for a checkpoint."""
    save, seen = model.save, []

    def watched_save(path: Path) -> None:
        save(path)
        seen.extend(files(tmp_path))

    monkeypatch.setattr(model, "save", watched_save)
    run_epochs(Checkpoint(tmp_path), model, [1.0])
    assert [name.startswith(".partial-") for name in seen] == [True]


def generator_state() -> list[int]:
    """What torch's own generator stands at, which a layer without a seed draws from."""
    return kt._backend.GeneratorState.read()


@pytest.mark.parametrize("is_loaded", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_resumed_run_goes_on_as_if_never_stopped(is_loaded: bool, tmp_path: Path) -> None:
    """Adam, a schedule and dropout: each has a state that the next batches depend on."""

    def make_model() -> keras.Model:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
        model.compile(optimizer=keras.optimizers.Adam(NoamSchedule(hidden_dim=8, warmup_steps=5)), loss="mse")
        return model

    options: dict[str, Any] = {"batch_size": 4, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    model = make_model()
    model.fit(X, Y, epochs=2, callbacks=[Checkpoint(tmp_path)], **options)
    state = generator_state()
    checkpoint = Checkpoint(tmp_path)
    resumed = checkpoint.load_model() if is_loaded else make_model()
    if not is_loaded:
        checkpoint.restore(resumed)
    assert int(resumed.optimizer.iterations) == 4
    # Whatever happens in between: torch has one generator for all layers without a seed.
    keras.layers.Dropout(0.5)(X, training=True)
    resumed.fit(X, Y, initial_epoch=checkpoint.epoch, epochs=4, callbacks=[checkpoint], **options)
    kt._backend.GeneratorState.write(state)
    model.fit(X, Y, initial_epoch=2, epochs=4, **options)
    assert int(resumed.optimizer.iterations) == int(model.optimizer.iterations) == 8
    for old, new in zip(
        [*model.variables, *model.optimizer.variables],
        [*resumed.variables, *resumed.optimizer.variables],
        strict=True,
    ):
        np.testing.assert_array_equal(array(old), array(new))
    assert checkpoint.epoch == 4
    assert [len(values) for values in checkpoint.history.values()] == [4, 4]


@pytest.mark.slow
def test_dropout_goes_on_where_it_stood(run_epochs: RunEpochs, tmp_path: Path) -> None:
    def make_model() -> kt.Transformer:
        keras.utils.set_random_seed(3)
        sizes = {"num_layers": 1, "hidden_dim": 4, "num_heads": 2, "intermediate_dim": 3}
        model = kt.Transformer(7, 5, **sizes, dropout=0.5)
        compile_model(model, 0.1)
        model.optimizer.build(model.trainable_variables)
        return model

    inputs = {"encoder_token_ids": np.array([[4, 5, 3]]), "decoder_token_ids": np.array([[2, 4]])}
    model, other = make_model(), make_model()
    first = array(model(inputs, training=True))
    run_epochs(Checkpoint(tmp_path), model, [1.0])
    state = generator_state()
    expected = array(model(inputs, training=True))
    assert np.abs(expected - first).max() > 0
    Checkpoint(tmp_path).restore(other)
    kt._backend.GeneratorState.write(state)
    np.testing.assert_array_equal(array(other(inputs, training=True)), expected)


def test_a_run_is_not_begun_again_over_another(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [2.0, 1.0])
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"Go on with it by `restore\(model\)`.*the weights of epoch 2\."):
        model.fit(X, Y, validation_data=(X, Y), epochs=3, verbose=0, callbacks=[Checkpoint(tmp_path)])
    assert contents(tmp_path) == before


def test_an_epoch_that_is_saved_is_not_replaced(model: keras.Model, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, monitor="loss")
    options: dict[str, Any] = {"epochs": 2, "verbose": 0, "callbacks": [checkpoint]}
    model.fit(X, Y, **options)
    before = contents(tmp_path)
    message = r"2 epochs already\. Go on by `initial_epoch=.* Received: epoch 1\."
    with pytest.raises(InputError, match=message):
        model.fit(X, Y, **options)
    assert contents(tmp_path) == before
    model.fit(X, Y, initial_epoch=checkpoint.epoch, **{**options, "epochs": 3})
    assert checkpoint.epoch == len(checkpoint.history["loss"]) == 3


def test_another_metric_compares_the_epochs_that_are_kept(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [1.0, 3.0, 2.0])
    assert Checkpoint(tmp_path).best_epoch == 1
    with pytest.warns(UserWarning, match="chosen by val_loss, and from now on by other"):
        checkpoint = Checkpoint(tmp_path, monitor="other")
    assert checkpoint.best_epoch == 3
    with pytest.warns(UserWarning, match="from now on by loss"):
        assert Checkpoint(tmp_path, monitor="loss").best_epoch == 1


@pytest.mark.parametrize(("metric", "best"), [("accuracy", 2), ("mean_squared_error", 1)])
def test_the_best_epoch_is_that_of_a_callback_of_keras(metric: str, best: int, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, activation="sigmoid", use_bias=False)])
    model.compile("sgd", "binary_crossentropy", metrics=[metric])
    checkpoint = Checkpoint(tmp_path / "run", monitor=metric)
    theirs = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras", metric, save_best_only=True)
    right = np.ones((4, 1), "float32")
    for epoch, weight in enumerate((-3.0, 0.5, -2.0) if metric == "accuracy" else (3.0, 0.5, 2.0)):
        model.set_weights([np.array([[weight]])])
        model.optimizer.learning_rate = 0.0
        options: dict[str, Any] = {"initial_epoch": epoch, "epochs": epoch + 1, "verbose": 0}
        model.fit(right, right, callbacks=[checkpoint, theirs], **options)
    saved = [int(path.stem) for path in tmp_path.glob("*.keras")]
    assert checkpoint.best_epoch == Checkpoint(tmp_path / "run").best_epoch == max(saved) == best


STATE = {
    "": "{",
    "0.5": "0.7",
    "val_loss": "val_lost",
    "epoch": "epoci",
    "checksum": "cheksum",
    '": ': '": 1',
}


NO_STATE = r"state\.json( is damaged: | is not valid JSON: | must hold a JSON object|: the file is empty)"


@pytest.mark.parametrize(("old", "new"), STATE.items())
def test_one_byte_of_the_state_is_noticed(
    old: str, new: str, run_epochs: RunEpochs, model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [0.5])
    path = tmp_path / "checkpoints/state.json"
    content = path.read_text()
    path.write_text(content.replace(old, new, 1))
    with pytest.raises(InputError, match=NO_STATE) as caught:
        Checkpoint(tmp_path)
    assert "\n" not in str(caught.value)
    path.write_text(content)
    assert Checkpoint(tmp_path).history["val_loss"] == [0.5]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b'{"epochs": 3}', b"\xff{}"])
def test_what_is_no_state_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/state.json").write_bytes(content)
    with pytest.raises(InputError, match=NO_STATE):
        Checkpoint(tmp_path)


def test_the_checksum_is_shown(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/state.json").write_text('{"epoch": 3, "checksum": "00"}')
    received = hashlib.sha256(b'{"epoch": 3}').hexdigest()
    with pytest.raises(InputError, match=rf"its checksum must be '00'\. Received: '{received}'\."):
        Checkpoint(tmp_path)


def test_numbers_are_read_to_the_last_bit(run_epochs: RunEpochs, model: keras.Model, tmp_path: Path) -> None:
    run_epochs(Checkpoint(tmp_path), model, [0.1 + 0.2, math.inf])
    assert Checkpoint(tmp_path).history["val_loss"] == [0.1 + 0.2, math.inf]


def test_checkpoints_without_a_state_are_not_replaced(
    run_epochs: RunEpochs, model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [2.0, 1.0])
    (tmp_path / "checkpoints/state.json").unlink()
    with pytest.raises(InputError, match=r"holds epoch-0002\.keras but not state\.json"):
        Checkpoint(tmp_path)
    # What a process leaves that is killed before the first state is written.
    (tmp_path / "checkpoints/epoch-0002.keras").unlink()
    assert Checkpoint(tmp_path).epoch == 0
