"""Reading checkpoints: which one is taken, and what is refused."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import (
    Checkpoint,
    CheckpointState,
    CheckpointWarning,
    compile_model,
    read_checkpoint,
    read_state,
    restore_checkpoint,
    save_model,
)

X, Y = np.linspace(0, 1, 16).reshape(8, 2).astype("float32"), np.ones((8, 1), "float32")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flip_one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_checkpoint_is_read_with_its_state(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
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


@pytest.mark.parametrize("damage", [flip_one_bit, Path.unlink])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    run_epochs: Callable[..., None], damage: Callable[[Path], None], model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0, 2.0])
    expected = ops.convert_to_numpy(model.weights[0]).copy()
    before = read_state(tmp_path)
    assert before is not None
    model.weights[0].assign(expected + 1)
    run_epochs(Checkpoint(tmp_path, state=before), model, [1.0], start=2)
    damage(tmp_path / "epoch-0003.keras")
    for best in (False, True):
        message = (
            r"epoch-0003\.keras (is damaged: its SHA|cannot be read).* epoch-0002\.keras is used instead\."
        )
        with pytest.warns(CheckpointWarning, match=message):
            restored, state = read_checkpoint(tmp_path, best=best)
        assert restored is not None
        assert state == before
        np.testing.assert_array_equal(ops.convert_to_numpy(restored.weights[0]), expected)


def test_a_run_goes_on_from_the_one_before(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0, 2.0])
    flip_one_bit(tmp_path / "epoch-0002.keras")
    with pytest.warns(CheckpointWarning):
        restored, state = read_checkpoint(tmp_path)
    run_epochs(Checkpoint(tmp_path, state=state), restored, [2.0], start=1)
    _, state = read_checkpoint(tmp_path)
    assert (state.epoch, state.history["val_loss"]) == (2, [3.0, 2.0])


def test_the_last_epoch_takes_the_place_of_a_damaged_best_one(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [1.0, 2.0, 3.0])
    flip_one_bit(tmp_path / "epoch-0001.keras")
    with pytest.warns(CheckpointWarning, match=r"epoch-0001\.keras is damaged.* epoch-0003\.keras is used"):
        restored, state = read_checkpoint(tmp_path, best=True)
    assert restored is not None
    assert state.best_epoch == 3


def test_no_whole_checkpoint_is_an_error(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [3.0, 2.0])
    wanted = sha256(tmp_path / "epoch-0002.keras")
    for path in tmp_path.glob("*.keras"):
        flip_one_bit(path)
    received = sha256(tmp_path / "epoch-0002.keras")
    message = (
        rf"epoch-0002\.keras is damaged: .* {wanted[:16]}…, as state\.json .* Received: {received[:16]}…\."
    )
    with pytest.raises(InputError, match=message):
        read_checkpoint(tmp_path)


def test_a_checkpoint_of_an_earlier_version_is_read(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    """There were no checksums, no random state and no state before."""
    save_model(model, tmp_path / "epoch-0001.keras")
    names = {"last_file": "epoch-0001.keras", "best_file": "epoch-0001.keras"}
    old = {"epoch": 1, **names, "best_epoch": 1, "best_value": 1.0, "history": {"val_loss": [1.0]}}
    (tmp_path / "state.json").write_text(json.dumps(old))
    for best in (False, True):
        restored, state = read_checkpoint(tmp_path, best=best)
        np.testing.assert_array_equal(
            ops.convert_to_numpy(restored.weights[0]), ops.convert_to_numpy(model.weights[0])
        )
        assert state == CheckpointState(**old)
    run_epochs(Checkpoint(tmp_path, state=state), restored, [2.0], start=1)
    assert read_checkpoint(tmp_path, best=True)[1].best_file == "epoch-0001.keras"


def test_checkpoints_without_a_state_are_not_begun_anew_over(
    run_epochs: Callable[..., None], model: keras.Model, tmp_path: Path
) -> None:
    run_epochs(Checkpoint(tmp_path), model, [2.0, 1.0])
    for name in ("state.json", "state-before.json"):
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match=r"holds epoch-0002\.keras but neither state\.json nor state-before"):
        read_checkpoint(tmp_path)
    # What a process leaves that is killed before the first state is written.
    (tmp_path / "epoch-0002.keras").unlink()
    assert read_checkpoint(tmp_path) == (None, CheckpointState())


def small_transformer(**options: object) -> kt.Transformer:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.1}
    model = kt.Transformer(12, 12, **{**sizes, **options})
    compile_model(model, 0.1)
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.mark.parametrize("before", [{"activation": "relu"}, {"num_heads": 2, "dropout": 0.1}])
def test_a_model_of_other_options_is_refused_by_their_names(
    run_epochs: Callable[..., None], before: dict[str, object], tmp_path: Path
) -> None:
    after = {"relu": "gelu", 2: 4, 0.1: 0.5}
    run_epochs(Checkpoint(tmp_path), small_transformer(**before), [1.0])
    restore_checkpoint(small_transformer(name="renamed"), tmp_path)
    named = ", ".join(f"{name}={after[value]!r} after {value!r}" for name, value in before.items())
    with pytest.raises(InputError, match=re.escape(f"Received: {named}.")):
        restore_checkpoint(small_transformer(**{name: after[before[name]] for name in before}), tmp_path)


def test_a_smaller_model_does_not_take_part_of_the_weights(
    run_epochs: Callable[..., None], tmp_path: Path
) -> None:
    def make(num_layers: int) -> keras.Model:
        layers = [keras.layers.Dense(2, name=f"dense_{number}") for number in range(num_layers)]
        model = keras.Sequential([keras.Input((2,)), *layers])
        model.compile(keras.optimizers.SGD(0.1), loss="mse")
        return model

    run_epochs(Checkpoint(tmp_path), make(2), [1.0])
    restore_checkpoint(make(2), tmp_path)
    with pytest.raises(InputError, match=r"another model: it must have 12 parameters\. Received: 6 param"):
        restore_checkpoint(make(1), tmp_path)
