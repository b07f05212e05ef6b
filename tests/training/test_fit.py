"""A run of `fit`: what it leaves, how it goes on after a stop, and which weights it returns."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import (
    Checkpoint,
    MaskedAccuracy,
    MaskedCrossentropy,
    compile_model,
    fit,
    load_model,
)

LABELS = np.array([[5, 2, 6, 0, 0], [1, 3, 0, 0, 0], [4, 4, 4, 6, 1]], dtype="int32")


class Scripted(keras.callbacks.Callback):
    """Gives the epochs numbers to choose by, and keeps the weights of each."""

    monitor = "val_wanted"

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.values = values
        self.weights: dict[int, np.ndarray] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.weights[epoch + 1] = table(self.model)
        logs[self.monitor] = self.values[epoch]


def table(model: keras.Model) -> np.ndarray:
    return np.array(model.get_weights()[0])


def embedding(**options: Any) -> keras.Model:
    return keras.Sequential([keras.Input((None,), dtype="int32"), keras.layers.Embedding(7, 7, **options)])


def make_model(**optimizer: Any) -> keras.Model:
    keras.utils.set_random_seed(0)
    model = embedding()
    adam = keras.optimizers.Adam(0.5, **optimizer)
    model.compile(adam, MaskedCrossentropy(), metrics=[MaskedAccuracy()], run_eagerly=True)
    return model


class OneBatch(keras.utils.PyDataset):
    """All of it at once, in each epoch."""

    def __init__(self, inputs: Any = LABELS) -> None:
        super().__init__()
        self.inputs = inputs

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> tuple[Any, np.ndarray]:
        return self.inputs, LABELS


def rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "training.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_best_epoch_is_left_in_the_model_and_in_the_directory(tmp_path: Path) -> None:
    model, scoring = make_model(), Scripted(3, 1, 2)
    checkpoint = fit(model, OneBatch(), directory=tmp_path / "run", epochs=3, scoring=scoring, verbose=0)
    assert (checkpoint.epoch, checkpoint.best_epoch) == (3, 2)
    np.testing.assert_array_equal(table(model), scoring.weights[2])
    np.testing.assert_array_equal(table(load_model(tmp_path / "run")), scoring.weights[2])
    assert np.abs(scoring.weights[3] - scoring.weights[2]).max() > 0.01
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"checkpoints", "training.csv"}


def test_a_resumed_run_is_one_run(tmp_path: Path) -> None:
    whole, parts = make_model(), [make_model(), make_model()]
    options: dict[str, Any] = {"validation": (LABELS, LABELS), "verbose": 0}
    fit(whole, OneBatch(), directory=tmp_path / "whole", epochs=3, **options)
    fit(parts[0], OneBatch(), directory=tmp_path / "parts", epochs=2, **options)
    checkpoint = fit(parts[1], OneBatch(), directory=tmp_path / "parts", epochs=3, **options)
    np.testing.assert_allclose(table(parts[1]), table(whole), atol=1e-6)
    assert [len(values) for values in checkpoint.history.values()] == [3] * len(checkpoint.history)
    assert {"loss", "val_loss", "accuracy", "tokens_per_second", "padding"} <= set(checkpoint.history)
    written = rows(tmp_path / "parts")
    assert [row["epoch"] for row in written] == ["1", "2", "3"]
    assert float(written[2]["val_loss"]) == checkpoint.history["val_loss"][2]
    again = fit(make_model(), OneBatch(), directory=tmp_path / "parts", epochs=3, **options)
    assert again.history == checkpoint.history  # nothing was left to do


@pytest.mark.slow
def test_a_resumed_run_of_lora_is_one_run(tmp_path: Path) -> None:
    def adapted() -> kt.CausalLM:
        keras.utils.set_random_seed(3)
        model = kt.CausalLM(7, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, dropout=0.0)
        model.enable_lora(2)
        compile_model(model, 0.1)
        return model

    whole, parts = adapted(), [adapted(), adapted()]
    fit(whole, OneBatch(), directory=tmp_path / "whole", epochs=3, verbose=0)
    fit(parts[0], OneBatch(), directory=tmp_path / "parts", epochs=2, verbose=0)
    fit(parts[1], OneBatch(), directory=tmp_path / "parts", epochs=3, verbose=0)
    for ours, theirs in zip(parts[1].weights, whole.weights, strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs), atol=1e-6)
    factors = [np.array(model.trainable_weights[-1]) for model in parts]
    assert np.abs(factors[1] - factors[0]).max() > 1e-3


def test_a_dataset_begins_once_for_each_epoch(tmp_path: Path) -> None:
    """Those of `kt.data` count their epochs; Keras would begin one to see what its batches are like."""
    begun: list[int] = []

    def epoch() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        begun.append(len(begun))
        yield LABELS, LABELS

    spec = tf.TensorSpec((None, None), tf.int32)
    dataset = tf.data.Dataset.from_generator(epoch, output_signature=(spec, spec))
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(1))
    model = make_model()
    fit(model, dataset, directory=tmp_path, epochs=2, verbose=0)
    assert begun == [0, 1]
    fit(model, dataset, directory=tmp_path, epochs=3, verbose=0)
    assert begun == [0, 1, 2]


@pytest.mark.slow
def test_a_damaged_checkpoint_costs_an_epoch(tmp_path: Path) -> None:
    whole, parts = make_model(), [make_model(), make_model()]
    options: dict[str, Any] = {"average_last": 3, "verbose": 0}
    fit(whole, OneBatch(), directory=tmp_path / "whole", epochs=3, **options)
    fit(parts[0], OneBatch(), directory=tmp_path / "parts", epochs=2, **options)
    newest = tmp_path / "parts/checkpoints/epoch-0002.keras"
    newest.write_bytes(newest.read_bytes()[:-9] + b"123456789")
    with pytest.warns(UserWarning, match=r"epoch-0002\.keras is damaged.*epoch-0001\.keras is used"):
        checkpoint = fit(parts[1], OneBatch(), directory=tmp_path / "parts", epochs=3, **options)
    assert checkpoint.epoch == 3
    np.testing.assert_array_equal(table(parts[1]), table(whole))


def test_patience_is_counted_over_a_stop(tmp_path: Path) -> None:
    values = (3, 1, 2, 2, 2, 2, 2)
    options: dict[str, Any] = {"directory": tmp_path, "patience": 3, "verbose": 0}
    assert fit(make_model(), OneBatch(), epochs=3, scoring=Scripted(*values), **options).epoch == 3
    for _ in range(2):
        checkpoint = fit(make_model(), OneBatch(), epochs=7, scoring=Scripted(*values), **options)
        assert (checkpoint.epoch, checkpoint.best_epoch) == (5, 2)


def test_the_last_epochs_are_averaged(tmp_path: Path) -> None:
    model, scoring = make_model(), Scripted(1, 2, 3, 4)
    fit(model, OneBatch(), directory=tmp_path, epochs=4, scoring=scoring, average_last=3, verbose=0)
    mean = (scoring.weights[2] + scoring.weights[3] + scoring.weights[4]) / 3
    np.testing.assert_allclose(table(model), mean, atol=1e-6)
    np.testing.assert_allclose(table(load_model(tmp_path, average_last=3)), mean, atol=1e-6)


@pytest.mark.parametrize(
    "killed_in", ["_write_state", pytest.param("_remove_others", marks=pytest.mark.slow)]
)
def test_a_run_killed_around_its_last_state_ends_as_the_whole_one(
    killed_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"epochs": 3, "average_last": 2, "verbose": 0}
    whole, stopped, resumed = (make_model() for _ in range(3))
    fit(whole, OneBatch(), directory=tmp_path / "whole", **options)
    fit(stopped, OneBatch(), directory=tmp_path / "run", **{**options, "epochs": 2})
    with monkeypatch.context() as patch:
        owner = "Checkpoint._remove_others" if killed_in == "_remove_others" else killed_in
        patch.setattr(f"keras_transformer.training.checkpoint.{owner}", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(make_model(), OneBatch(), directory=tmp_path / "run", **options)
    assert Checkpoint(tmp_path / "run").epoch == (2 if killed_in == "_write_state" else 3)
    fit(resumed, OneBatch(), directory=tmp_path / "run", **options)
    np.testing.assert_array_equal(table(resumed), table(whole))
    assert [row["epoch"] for row in rows(tmp_path / "run")] == ["1", "2", "3"]


def test_classes_that_keras_does_not_know_are_averaged(tmp_path: Path) -> None:
    class Unregistered(keras.Sequential):
        pass

    model, expected = make_model(), make_model()
    unknown = Unregistered(model.layers)
    unknown.compile(model.optimizer, MaskedCrossentropy())
    fit(unknown, OneBatch(), directory=tmp_path / "unknown", epochs=2, average_last=2, verbose=0)
    fit(expected, OneBatch(), directory=tmp_path / "known", epochs=2, average_last=2, verbose=0)
    np.testing.assert_allclose(table(unknown), table(expected), atol=1e-6)


@pytest.mark.slow
def test_a_new_learning_rate_holds_for_a_run_that_goes_on(tmp_path: Path) -> None:
    options: dict[str, Any] = {"directory": tmp_path, "verbose": 0}
    fit(embedding(), OneBatch(), epochs=1, learning_rate=0.1, **options)
    model = embedding()
    fit(model, OneBatch(), epochs=2, learning_rate=0.001, **options)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.001)


class Subclassed(keras.Model):
    """Has weights when it has seen a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(7, 7)

    def call(self, inputs: Any) -> Any:
        return self.embedding(inputs)


@pytest.mark.slow
def test_a_model_that_is_not_built_goes_on(tmp_path: Path) -> None:
    dataset = tf.data.Dataset.from_tensors((LABELS, LABELS))
    for epochs in (1, 2):
        model = Subclassed()
        checkpoint = fit(model, dataset, directory=tmp_path, epochs=epochs, learning_rate=0.1, verbose=0)
    assert checkpoint.epoch == 2
    losses = checkpoint.history["loss"]
    assert losses[1] < losses[0]


def test_a_model_that_cannot_take_one_token(tmp_path: Path) -> None:
    layers = [keras.layers.Embedding(7, 8), keras.layers.Conv1D(7, 3)]
    model = keras.Sequential([keras.Input((None,), dtype="int32"), *layers])
    specs = [tf.TensorSpec((None, None), "int32")] * 2
    dataset = tf.data.Dataset.from_generator(lambda: [(LABELS, LABELS[:, 2:])], output_signature=tuple(specs))
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(1))
    assert fit(model, dataset, directory=tmp_path, epochs=1, learning_rate=0.1, verbose=0).epoch == 1


def test_swapped_averages_are_refused(tmp_path: Path) -> None:
    swap = keras.callbacks.SwapEMAWeights()
    with pytest.raises(ValueError, match="`callbacks` must be without SwapEMAWeights"):
        fit(make_model(use_ema=True), OneBatch(), directory=tmp_path, callbacks=[swap])


def test_another_kind_of_optimizer_is_refused(tmp_path: Path) -> None:
    model = make_model()
    fit(model, OneBatch(), directory=tmp_path, epochs=1, verbose=0)
    with pytest.raises(InputError, match=r"epoch-0001\.keras cannot be read into the model: .*optimizer"):
        fit(make_model(use_ema=True), OneBatch(), directory=tmp_path, epochs=2, verbose=0)
    # Its variables have the same shapes.
    model.compile(keras.optimizers.Adamax(0.5), MaskedCrossentropy())
    with pytest.raises(InputError, match=r"Received: optimizer='Adamax' after 'Adam'\."):
        fit(model, OneBatch(), directory=tmp_path, epochs=2, verbose=0)


def test_a_finished_run_warns(tmp_path: Path) -> None:
    for _ in range(2):
        fit(make_model(), OneBatch(), directory=tmp_path, epochs=1, verbose=0)
    with pytest.warns(UserWarning, match="is trained to epoch 1, and needs no more"):
        fit(make_model(), OneBatch(), directory=tmp_path, epochs=1, verbose=2)


def test_epochs_without_a_value_are_not_compared(tmp_path: Path) -> None:
    options: dict[str, Any] = {"directory": tmp_path, "verbose": 0}
    fit(make_model(), OneBatch(), epochs=2, scoring=Scripted(1, 2), **options)
    scoring = Scripted(0, 0, 8, 7)
    scoring.monitor = "val_other"
    with pytest.warns(UserWarning, match="chosen by val_wanted, and from now on by val_other"):
        checkpoint = fit(make_model(), OneBatch(), epochs=4, scoring=scoring, **options)
    assert (checkpoint.best_epoch, checkpoint.monitor) == (4, "val_other")


def test_the_moving_average_of_the_best_epoch(tmp_path: Path) -> None:
    model, scoring = make_model(use_ema=True, ema_momentum=0.5), Scripted(3, 1, 2)
    fit(model, OneBatch(), directory=tmp_path, epochs=3, scoring=scoring, verbose=0)
    expected = (scoring.weights[1] + scoring.weights[2]) / 2
    np.testing.assert_allclose(table(model), expected, atol=1e-6)
    np.testing.assert_allclose(table(load_model(tmp_path)), expected, atol=1e-6)


def test_a_transformer_and_a_learning_rate_are_enough(tmp_path: Path) -> None:
    model = kt.Transformer(9, 9, num_layers=1, hidden_dim=6, num_heads=2, intermediate_dim=5)
    inputs = {"encoder_token_ids": LABELS, "decoder_token_ids": LABELS}
    checkpoint = fit(model, OneBatch(inputs), directory=tmp_path, epochs=1, learning_rate=0.01, verbose=0)
    assert {"loss", "accuracy", "perplexity"} <= set(checkpoint.history)
    assert model.optimizer.beta_2 == 0.98


@pytest.mark.slow
def test_tensorboard_and_further_callbacks(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    further = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(further=7.0))
    options: dict[str, Any] = {"epochs": 1, "tensorboard": True, "callbacks": [further], "verbose": 0}
    checkpoint = fit(make_model(), OneBatch(), directory=tmp_path, **options)
    assert checkpoint.history["further"] == [7.0]
    assert list((tmp_path / "tensorboard" / "train").iterdir())


def test_a_model_of_another_class_is_refused(tmp_path: Path) -> None:
    fit(make_model(), OneBatch(), directory=tmp_path, epochs=1, verbose=0)
    other = kt.CausalLM(7, num_layers=1, hidden_dim=6, num_heads=2, intermediate_dim=5)
    compile_model(other, 0.1)
    with pytest.raises(InputError, match=r"num_parameters=305 after 49"):
        fit(other, OneBatch(), directory=tmp_path, epochs=2, verbose=0)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="JAX on a CPU cannot train in float16")
def test_a_run_in_float16_ends_and_goes_on(tmp_path: Path) -> None:
    def train(epochs: int) -> keras.Model:
        keras.utils.set_random_seed(0)
        model = embedding(dtype="mixed_float16")
        fit(model, OneBatch(), directory=tmp_path, epochs=epochs, learning_rate=0.5, verbose=0)
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        return model

    first = train(1)
    assert int(train(2).optimizer.iterations) == 2 == 2 * int(first.optimizer.iterations)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, r"`epochs` must be above zero\. Received: epochs=0\."),
        ({"average_last": 0}, r"`average_last` must be above zero"),
        ({"learning_rate": -1.0}, r"`learning_rate` must be above zero.*\. Received: learning_rate=-1"),
        ({"patience": 0}, r"`patience` must be above zero\. Received: patience=0\."),
    ],
)
def test_numbers_out_of_their_range(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        fit(make_model(), OneBatch(), directory=tmp_path / "run", verbose=0, **options)
    assert not (tmp_path / "run").exists()


DATASET = tf.data.Dataset.range(6).batch(2)


@pytest.mark.parametrize(
    ("training", "validation", "error", "message"),
    [
        (([1], [2]), None, TypeError, r"`training` must be a dataset of batches.* Received: a tuple of 2\."),
        (np.ones(3), None, TypeError, r"`training` must be a dataset of batches.*Received: a ndarray of 3\."),
        (DATASET, np.ones(3), TypeError, r"`validation` must be a dataset of batches"),
        (DATASET.repeat(), None, ValueError, r"`training` must have an end.*leave out `\.repeat\(\)`"),
        (DATASET, DATASET.repeat(), ValueError, r"`validation` must have an end"),
        (iter([1]), None, TypeError, r"`training` must be .* each epoch can read again.*class list_iterator"),
        (DATASET, (x for x in [1]), TypeError, r"`validation` must be .* each epoch.*class generator"),
        (DATASET.take(0), None, InputError, r"`training` must have at least one batch\. Received: 0 batches"),
        (DATASET, DATASET.take(0), InputError, r"`validation` must have at least one batch"),
        (DATASET, None, ValueError, r"not compiled\. Received: learning_rate=None\."),
    ],
)
def test_what_no_epoch_can_be_made_of(
    training: Any, validation: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        fit(embedding(), training, validation, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sample_weights_that_the_loss_would_not_divide_by(tmp_path: Path) -> None:
    weighted = tf.data.Dataset.from_tensors((LABELS, LABELS, [1.0, 2.0, 1.0]))
    model = embedding()
    model.compile(keras.optimizers.SGD(gradient_accumulation_steps=2), MaskedCrossentropy())
    with pytest.raises(ValueError, match="`validation` must be without sample weights where gradients"):
        fit(model, weighted, weighted, directory=tmp_path, verbose=0)
    model.compile("sgd", MaskedCrossentropy())
    assert fit(model, weighted, weighted, directory=tmp_path, epochs=1, verbose=0).epoch == 1


class Rows(keras.utils.PyDataset):
    """Each row of the labels as a batch."""

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        return LABELS[number : number + 1], LABELS[number : number + 1]


def accumulated(directory: Path, training: Any, steps: int | None) -> tuple[np.ndarray, float, keras.Model]:
    """Return the table, the loss and the model after two updates."""
    keras.utils.set_random_seed(0)
    model = embedding()
    optimizer = keras.optimizers.SGD(1.0, momentum=0.5, gradient_accumulation_steps=steps)
    model.compile(optimizer, MaskedCrossentropy(), jit_compile=False)
    checkpoint = fit(model, training, directory=directory, epochs=2, verbose=0)
    return table(model), checkpoint.history["loss"][-1], model


@pytest.mark.parametrize(
    "weights", [pytest.param(each, marks=pytest.mark.slow) for each in (np.ones(3), LABELS / 3)] + [[1, 0, 3]]
)
def test_weighted_rows_of_an_update_train_as_one_batch(weights: Any, tmp_path: Path) -> None:
    rows = tf.data.Dataset.from_tensor_slices((LABELS, LABELS, np.asarray(weights, "float32")))
    whole, loss, _ = accumulated(tmp_path / "whole", rows.batch(3), None)
    parts, total, model = accumulated(tmp_path / "parts", rows.batch(1), 3)
    np.testing.assert_allclose(parts, whole, atol=1e-6)
    assert total == pytest.approx(loss, rel=1e-3)
    # After it, the loss is a mean again, in the model and in the files.
    for each in (model, keras.saving.load_model(max(tmp_path.glob("parts/checkpoints/*.keras")))):
        each.optimizer.learning_rate = 0.0
        means = [each.fit(rows.batch(size), verbose=0, shuffle=False).history["loss"][0] for size in (1, 3)]
        assert max(means) < 2 * total


@pytest.mark.slow
def test_batches_that_no_dataset_weighs(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"every batch has the same weight, .* Received: a Rows\."):
        accumulated(tmp_path / "rows", Rows(), 3)
    accumulated(tmp_path / "plain", Rows(), None)


X, Y = np.ones((6, 2), "float32"), np.ones((6, 1), "float32")


def dense(learning_rate: float = 0.01) -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(learning_rate), "mse")
    return model


def batches(x: np.ndarray) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((x, Y)).batch(2)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_the_batch_after_which_a_loss_is_lost_is_named(value: float, tmp_path: Path) -> None:
    lost = X.copy()
    lost[2, 1] = value
    fit(dense(), batches(X), directory=tmp_path, epochs=1, verbose=0)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("checkpoints/*")}
    message = (
        rf"Received: loss={value} after batch 2 of epoch 2, step 5, at the learning rate 0\.01\. A lower"
    )
    with pytest.raises(InputError, match=message):
        fit(dense(), batches(lost), directory=tmp_path, epochs=3, verbose=0)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("checkpoints/*")} == before


def test_weights_lost_in_the_last_batch_are_not_saved(tmp_path: Path) -> None:
    """The loss of the only batch is finite, for the update comes after it."""
    dataset = tf.data.Dataset.from_tensors((X, Y))
    with pytest.raises(InputError, match=r"val_loss=(nan|inf) after epoch 1, step 1, at .* inf\."):
        fit(dense(learning_rate=math.inf), dataset, dataset, directory=tmp_path, verbose=0)
    assert list(tmp_path.iterdir()) == []


def test_weights_lost_in_the_last_batch_without_a_validation(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Epoch 1 must hold finite weights\. Received: NaN or infinity in"):
        fit(
            dense(learning_rate=math.inf),
            tf.data.Dataset.from_tensors((X, Y)),
            directory=tmp_path,
            epochs=1,
            verbose=0,
        )
    assert not [*tmp_path.glob("**/*.keras")]


def test_another_number_may_be_infinite(tmp_path: Path) -> None:
    further = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(further=math.nan))
    fit(dense(), batches(X), directory=tmp_path, epochs=1, callbacks=[further], verbose=0)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_stream_that_ends_for_good(tmp_path: Path) -> None:
    stream = iter([(X, Y)] * 3)
    signature = tuple(tf.TensorSpec(values.shape, "float32") for values in (X, Y))
    dataset = tf.data.Dataset.from_generator(lambda: stream, output_signature=signature)
    with pytest.raises(InputError, match="0 batches in epoch 2"):
        fit(dense(), dataset, directory=tmp_path, epochs=3, verbose=0)
    assert not (tmp_path / "checkpoints" / "epoch-0002.keras").exists()


def test_a_dataset_may_hold_no_weights_at_all(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    rows = tf.data.Dataset.from_tensors((np.ones((4, 2), "float32"), np.ones((4, 1), "float32")))
    dataset = rows.map(lambda inputs, labels: (inputs, labels, None))
    assert fit(model, dataset, directory=tmp_path, epochs=1, verbose=0).epoch == 1
