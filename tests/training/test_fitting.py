"""A run of `fit`: what it leaves, going on after a stop, and which weights come out."""

import csv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import (
    CheckpointWarning,
    KeepRecent,
    MaskedAccuracy,
    MaskedCrossentropy,
    average_recent,
    compile_model,
    fit,
    trained_model,
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


def make_model(**optimizer: Any) -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((None,), dtype="int32"), keras.layers.Embedding(7, 7)])
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
    state = fit(model, OneBatch(), directory=tmp_path / "run", epochs=3, scoring=scoring, verbose=0)
    assert (state.epoch, state.best_epoch, state.best_value) == (3, 2, 1)
    np.testing.assert_array_equal(table(model), scoring.weights[2])
    np.testing.assert_array_equal(table(trained_model(tmp_path / "run")), scoring.weights[2])
    assert np.abs(scoring.weights[3] - scoring.weights[2]).max() > 0.01
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"checkpoints", "training.csv", "training.png"}


def test_a_resumed_run_is_one_run(tmp_path: Path) -> None:
    whole, parts = make_model(), [make_model(), make_model()]
    options: dict[str, Any] = {"validation": (LABELS, LABELS), "verbose": 0}
    fit(whole, OneBatch(), directory=tmp_path / "whole", epochs=3, **options)
    fit(parts[0], OneBatch(), directory=tmp_path / "parts", epochs=2, **options)
    state = fit(parts[1], OneBatch(), directory=tmp_path / "parts", epochs=3, **options)
    np.testing.assert_allclose(table(parts[1]), table(whole), atol=1e-6)
    assert [len(values) for values in state.history.values()] == [3] * len(state.history)
    assert {"loss", "val_loss", "accuracy", "tokens_per_second", "padding"} <= set(state.history)
    written = rows(tmp_path / "parts")
    assert [row["epoch"] for row in written] == ["1", "2", "3"]
    assert float(written[2]["val_loss"]) == state.history["val_loss"][2]
    again = fit(make_model(), OneBatch(), directory=tmp_path / "parts", epochs=3, **options)
    assert again == state  # nothing was left to do


def test_a_resumed_run_tells_the_scoring_what_it_scored(tmp_path: Path) -> None:
    earlier: list[dict[str, list[float]]] = []
    for epochs in (2, 3):
        scoring = Scripted(3, 1, 2)
        scoring.continue_from = earlier.append  # type: ignore[attr-defined]
        fit(make_model(), OneBatch(), directory=tmp_path, epochs=epochs, scoring=scoring, verbose=0)
    assert earlier[0] == {}
    assert earlier[1]["val_wanted"] == [3, 1]


def test_a_dataset_begins_once_for_each_epoch(tmp_path: Path) -> None:
    """Those of `kt.data` count their epochs; Keras would begin one to see what its batches are like."""
    tf = pytest.importorskip("tensorflow")
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


def test_a_damaged_checkpoint_costs_an_epoch(tmp_path: Path) -> None:
    whole, parts = make_model(), [make_model(), make_model()]
    fit(whole, OneBatch(), directory=tmp_path / "whole", epochs=3, average_last=3, verbose=0)
    fit(parts[0], OneBatch(), directory=tmp_path / "parts", epochs=2, average_last=3, verbose=0)
    newest = tmp_path / "parts/checkpoints/epoch-0002.keras"
    newest.write_bytes(newest.read_bytes()[:-9] + b"123456789")
    with pytest.warns(CheckpointWarning, match=r"epoch-0002\.keras is damaged.*epoch-0001\.keras is used"):
        state = fit(parts[1], OneBatch(), directory=tmp_path / "parts", epochs=3, average_last=3, verbose=0)
    assert state.epoch == 3
    np.testing.assert_array_equal(table(parts[1]), table(whole))


def test_patience_is_counted_over_a_stop(tmp_path: Path) -> None:
    values = (3, 1, 2, 2, 2, 2, 2)
    options: dict[str, Any] = {"directory": tmp_path, "patience": 3, "verbose": 0}
    assert fit(make_model(), OneBatch(), epochs=3, scoring=Scripted(*values), **options).epoch == 3
    for _ in range(2):
        state = fit(make_model(), OneBatch(), epochs=7, scoring=Scripted(*values), **options)
        assert (state.epoch, state.best_epoch) == (5, 2)


def test_the_last_epochs_are_averaged(tmp_path: Path) -> None:
    model, scoring = make_model(), Scripted(1, 2, 3, 4)
    fit(model, OneBatch(), directory=tmp_path, epochs=4, scoring=scoring, average_last=3, verbose=0)
    mean = (scoring.weights[2] + scoring.weights[3] + scoring.weights[4]) / 3
    np.testing.assert_allclose(table(model), mean, atol=1e-6)
    np.testing.assert_allclose(table(trained_model(tmp_path, average_last=3)), mean, atol=1e-6)


def test_a_run_killed_after_its_last_checkpoint_is_recorded_and_averaged_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"epochs": 3, "average_last": 2, "verbose": 0}
    whole, stopped, resumed = (make_model() for _ in range(3))
    fit(whole, OneBatch(), directory=tmp_path / "whole", **options)

    def stop(callback: KeepRecent, epoch: int, logs: object = None) -> None:
        if epoch == 2:
            raise KeyboardInterrupt
        keep(callback, epoch)

    keep = KeepRecent.on_epoch_end
    with monkeypatch.context() as patch:
        patch.setattr(KeepRecent, "on_epoch_end", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(stopped, OneBatch(), directory=tmp_path / "run", **options)
    assert len(rows(tmp_path / "run")) == 2
    fit(resumed, OneBatch(), directory=tmp_path / "run", **options)
    np.testing.assert_array_equal(table(resumed), table(whole))
    assert len(rows(tmp_path / "run")) == 3


def test_classes_that_keras_does_not_know_are_averaged(tmp_path: Path) -> None:
    class Unregistered(keras.Sequential):
        pass

    model, expected = make_model(), make_model()
    unknown = Unregistered(model.layers)
    unknown.compile(model.optimizer, MaskedCrossentropy())
    fit(unknown, OneBatch(), directory=tmp_path / "unknown", epochs=2, average_last=2, verbose=0)
    fit(expected, OneBatch(), directory=tmp_path / "known", epochs=2, average_last=2, verbose=0)
    np.testing.assert_allclose(table(unknown), table(expected), atol=1e-6)


def test_a_new_learning_rate_holds_for_a_run_that_goes_on(tmp_path: Path) -> None:
    options: dict[str, Any] = {"directory": tmp_path, "verbose": 0}
    fit(make_model(), OneBatch(), epochs=1, learning_rate=0.1, **options)
    model = make_model()
    fit(model, OneBatch(), epochs=2, learning_rate=0.001, **options)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.001)


class Subclassed(keras.Model):
    """Has weights when it has seen a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(7, 7)

    def call(self, inputs: Any) -> Any:
        return self.embedding(inputs)


def test_a_model_that_is_not_built_goes_on(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    dataset = tf.data.Dataset.from_tensors((LABELS, LABELS))
    for epochs in (1, 2):
        model = Subclassed()
        state = fit(model, dataset, directory=tmp_path, epochs=epochs, learning_rate=0.1, verbose=0)
    assert state.epoch == 2
    losses = state.history["loss"]
    assert losses[1] < losses[0]


def test_a_model_that_cannot_take_one_token(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
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
    fit(make_model(), OneBatch(), directory=tmp_path, epochs=1, verbose=0)
    with pytest.raises(InputError, match=r"epoch-0001\.keras cannot be read into the model: .*optimizer"):
        fit(make_model(use_ema=True), OneBatch(), directory=tmp_path, epochs=2, verbose=0)


def test_an_optimizer_with_variables_of_the_same_shapes_is_refused(tmp_path: Path) -> None:
    model = make_model()
    fit(model, OneBatch(), directory=tmp_path, epochs=1, verbose=0)
    model.compile(keras.optimizers.Adamax(0.5), MaskedCrossentropy())
    with pytest.raises(InputError, match=r"with the optimizer Adam\. (.|\n)*Received: Adamax\."):
        fit(model, OneBatch(), directory=tmp_path, epochs=2, verbose=0)


def test_a_finished_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verbose, said in ((0, False), (0, False), (2, True)):
        fit(make_model(), OneBatch(), directory=tmp_path, epochs=1, verbose=verbose)
        assert ("is trained to epoch 1, and needs no more" in capsys.readouterr().out) == said


def test_the_best_epoch_of_another_metric_does_not_count(tmp_path: Path) -> None:
    options: dict[str, Any] = {"directory": tmp_path, "verbose": 0}
    fit(make_model(), OneBatch(), epochs=2, scoring=Scripted(1, 2), **options)
    scoring = Scripted(0, 0, 8, 7)
    scoring.monitor = "val_other"
    with pytest.warns(CheckpointWarning, match="chosen by val_wanted, and from now on by val_other"):
        state = fit(make_model(), OneBatch(), epochs=4, scoring=scoring, **options)
    assert (state.best_epoch, state.best_value, state.monitor) == (4, 7, "val_other")


def test_the_moving_average_of_the_best_epoch(tmp_path: Path) -> None:
    model, scoring = make_model(use_ema=True, ema_momentum=0.5), Scripted(3, 1, 2)
    fit(model, OneBatch(), directory=tmp_path, epochs=3, scoring=scoring, verbose=0)
    expected = (scoring.weights[1] + scoring.weights[2]) / 2
    np.testing.assert_allclose(table(model), expected, atol=1e-6)
    np.testing.assert_allclose(table(trained_model(tmp_path)), expected, atol=1e-6)


def test_a_transformer_and_a_learning_rate_are_enough(tmp_path: Path) -> None:
    model = kt.Transformer(9, 9, num_layers=1, hidden_dim=6, num_heads=2, intermediate_dim=5)
    inputs = {"encoder_token_ids": LABELS, "decoder_token_ids": LABELS}
    state = fit(model, OneBatch(inputs), directory=tmp_path, epochs=1, learning_rate=0.01, verbose=0)
    assert {"loss", "accuracy", "perplexity"} <= set(state.history)
    assert model.optimizer.beta_2 == 0.98


def test_tensorboard_and_further_callbacks(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    further = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(further=7.0))
    state = fit(
        make_model(),
        OneBatch(),
        directory=tmp_path,
        epochs=1,
        tensorboard=True,
        callbacks=[further],
        verbose=0,
    )
    assert state.history["further"] == [7.0]
    assert list((tmp_path / "tensorboard" / "train").iterdir())


def test_a_model_must_be_compiled() -> None:
    model = keras.Sequential([keras.Input((None,), dtype="int32"), keras.layers.Embedding(7, 7)])
    with pytest.raises(ValueError, match=r"not compiled\. Received: learning_rate=None\."):
        fit(model, OneBatch(), directory="absent")
    assert not Path("absent").exists()


def test_files_that_are_missing_or_of_another_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"checkpoints holds no checkpoint\."):
        trained_model(tmp_path)
    with pytest.raises(InputError, match=r"recent holds no checkpoints to average\."):
        average_recent(tmp_path, 2)
    fit(make_model(), OneBatch(), directory=tmp_path, epochs=1, verbose=0)
    other = kt.CausalLM(7, num_layers=1, hidden_dim=6, num_heads=2, intermediate_dim=5)
    compile_model(other, 0.1)
    with pytest.raises(InputError, match=r"must have 49 parameters\. Received: 305 parameters\."):
        fit(other, OneBatch(), directory=tmp_path, epochs=2, verbose=0)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="JAX on a CPU cannot train in float16")
def test_a_run_in_float16_ends_and_goes_on(tmp_path: Path) -> None:
    def train(epochs: int) -> keras.Model:
        keras.utils.set_random_seed(0)
        layer = keras.layers.Embedding(7, 7, dtype="mixed_float16")
        model = keras.Sequential([keras.Input((None,), dtype="int32"), layer])
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
        (
            {"learning_rate": -1.0},
            r"`learning_rate` must be above zero and finite\. Received: learning_rate=-1",
        ),
        ({"patience": 4, "scoring": SimpleNamespace(monitor="x", every=5)}, r"patience=4, every=5"),
    ],
)
def test_numbers_out_of_their_range(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        fit(make_model(), OneBatch(), directory=tmp_path / "run", verbose=0, **options)
    assert not (tmp_path / "run").exists()
