"""A run whose loss is lost stops, and what it had saved stays as it was."""

import math
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.training import Checkpoint, StopOnNonFinite, fit

X, Y = np.ones((6, 2), "float32"), np.ones((6, 1), "float32")


def compiled(learning_rate: float = 0.01) -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(learning_rate), loss="mse")
    return model


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_batch_is_named(value: float) -> None:
    callback = StopOnNonFinite()
    callback.on_epoch_begin(2)
    callback.on_train_batch_end(0, {"loss": 1e30, "perplexity": math.inf})
    message = rf"The loss must be finite\. Received: loss={value} after batch 5 of epoch 3\. A lower learning"
    with pytest.raises(InputError, match=message):
        callback.on_train_batch_end(4, {"loss": value})


def test_the_loss_of_the_validation_counts() -> None:
    with pytest.raises(InputError, match=r"Received: val_loss=nan after epoch 3\."):
        StopOnNonFinite().on_epoch_end(2, {"loss": 1.0, "val_loss": math.nan})


def test_no_logs_are_no_loss() -> None:
    StopOnNonFinite().on_train_batch_end(0)
    StopOnNonFinite().on_epoch_end(0, {"loss": 1.0, "accuracy": math.nan})


def test_the_last_checkpoint_stays(tmp_path: Path) -> None:
    callbacks = [StopOnNonFinite(), Checkpoint(tmp_path)]
    model = compiled()
    model.fit(X, Y, validation_data=(X, Y), callbacks=callbacks, verbose=0)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    model.layers[0].bias.assign([math.nan])
    with pytest.raises(InputError, match=r"loss=nan after batch 1 of epoch 2, step 2, at"):
        model.fit(
            X,
            Y,
            validation_data=(X, Y),
            callbacks=callbacks,
            initial_epoch=1,
            epochs=3,
            batch_size=3,
            verbose=0,
        )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_weights_lost_in_the_last_batch_are_not_saved(tmp_path: Path) -> None:
    """The loss of the only batch is finite, for the update comes after it."""
    model = compiled(learning_rate=math.inf)
    with pytest.raises(InputError, match=r"val_loss=(nan|inf) after epoch 1, step 1, at .* inf\."):
        model.fit(
            X, Y, validation_data=(X, Y), callbacks=[StopOnNonFinite(), Checkpoint(tmp_path)], verbose=0
        )
    assert list(tmp_path.iterdir()) == []


def test_fit_saves_the_batch_that_was_wrong(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    x = np.arange(12, dtype="float32").reshape(6, 2)
    x[4, 1] = math.nan
    dataset = tf.data.Dataset.from_tensor_slices((x, Y)).batch(2).prefetch(2)
    with pytest.raises(
        InputError, match=r"after batch 3 of epoch 1, step 3, at the learning rate 0\.01\. The"
    ) as error:
        fit(compiled(), dataset, directory=tmp_path, verbose=0)
    path = tmp_path / "non_finite_batch.npz"
    assert f"The ids of that batch are in {path}." in str(error.value)
    with np.load(path) as arrays:
        np.testing.assert_array_equal(arrays["arr_0"], x[4:])
        np.testing.assert_array_equal(arrays["arr_1"], Y[4:])


def test_an_epoch_without_a_batch_is_an_error() -> None:
    with pytest.raises(InputError, match=r"one batch in each epoch\. Received: 0 batches in epoch 1\."):
        StopOnNonFinite().on_epoch_end(0, {"val_loss": 1.0})


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_stream_that_ends_for_good(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    stream = iter([(X, Y)] * 3)
    signature = tuple(tf.TensorSpec(array.shape, "float32") for array in (X, Y))
    dataset = tf.data.Dataset.from_generator(lambda: stream, output_signature=signature)
    with pytest.raises(InputError, match="0 batches in epoch 2"):
        fit(compiled(), dataset, directory=tmp_path, epochs=3, verbose=0)
    assert not (tmp_path / "checkpoints" / "epoch-0002.keras").exists()


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="torch takes one batch at once")
def test_of_several_batches_at_once_none_is_called_the_wrong_one(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    model = compiled()
    model.compile(optimizer="sgd", loss="mse", steps_per_execution=2)
    dataset = tf.data.Dataset.from_tensor_slices((np.full_like(X, math.nan), Y)).batch(2)
    with pytest.raises(InputError) as error:
        fit(model, dataset, directory=tmp_path, verbose=0)
    assert "ids of that batch" not in str(error.value)
