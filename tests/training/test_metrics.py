"""Metrics against NumPy over several batches, and tokens a second against a clock that is set."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import training
from keras_transformer.training import MaskedAccuracy, MaskedCrossentropy, Perplexity, Throughput

Batches = list[tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def batches() -> Batches:
    """Batches of different sizes, some labels padding: labels `(b, t)`, logits `(b, t, 6)`."""
    rng = np.random.default_rng(0)
    return [
        (rng.integers(0, 6, size=shape).astype("int32"), rng.normal(size=(*shape, 6)).astype("float32"))
        for shape in [(3, 5), (1, 2), (4, 7)]
    ]


def real_tokens(batches: Batches, pad_id: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The labels `(n,)` that are not padding, and their logits `(n, 6)`."""
    labels = np.concatenate([labels.reshape(-1) for labels, _ in batches])
    logits = np.concatenate([logits.reshape(-1, 6) for _, logits in batches])
    return labels[labels != pad_id], logits[labels != pad_id]


def result_of(metric: keras.metrics.Metric, batches: Batches) -> float:
    for labels, logits in batches:
        metric.update_state(labels, logits)
    return float(metric.result())


def expected_perplexity(labels: np.ndarray, logits: np.ndarray) -> float:
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return float(np.exp(-np.log(probabilities[np.arange(len(labels)), labels]).mean()))


@pytest.mark.parametrize("pad_id", [0, 3])
def test_accuracy_is_the_share_of_right_tokens(batches: Batches, pad_id: int) -> None:
    labels, logits = real_tokens(batches, pad_id)
    expected = (logits.argmax(-1) == labels).mean()
    assert 0 < expected < 1
    assert result_of(MaskedAccuracy(pad_id), batches) == pytest.approx(expected)


@pytest.mark.parametrize("pad_id", [0, 3])
def test_perplexity_is_the_exponential_of_the_mean(batches: Batches, pad_id: int) -> None:
    expected = expected_perplexity(*real_tokens(batches, pad_id))
    assert result_of(Perplexity(pad_id), batches) == pytest.approx(expected, rel=1e-5)


def test_perplexity_of_one_batch_is_the_exponential_of_the_loss(batches: Batches) -> None:
    loss = float(MaskedCrossentropy()(*batches[0]))
    assert result_of(Perplexity(), batches[:1]) == pytest.approx(np.exp(loss), rel=1e-5)


def test_sample_weights_count(batches: Batches) -> None:
    labels, logits = batches[0]
    metric = MaskedAccuracy()
    metric.update_state(labels, logits, sample_weight=np.array([0.0, 2.0, 0.0], "float32"))
    assert float(metric.result()) == pytest.approx(result_of(MaskedAccuracy(), [(labels[1:2], logits[1:2])]))


@pytest.mark.parametrize(("metric", "value"), [(MaskedAccuracy(), 0.0), (Perplexity(), 1.0)])
def test_before_the_first_token(metric: keras.metrics.Metric, value: float, batches: Batches) -> None:
    assert float(metric.result()) == value
    labels, logits = batches[0]
    metric.update_state(np.zeros_like(labels), logits)
    assert float(metric.result()) == value


@pytest.mark.parametrize("metric", [MaskedAccuracy(), Perplexity()])
def test_reset_forgets(metric: keras.metrics.Metric, batches: Batches) -> None:
    first = result_of(metric, batches)
    metric.reset_state()
    assert result_of(metric, batches) == pytest.approx(first)


@pytest.mark.parametrize("metric_class", [MaskedAccuracy, Perplexity])
def test_metrics_survive_serialization(metric_class: Any, batches: Batches) -> None:
    metric = metric_class(pad_id=3, name="of_tokens")
    restored = keras.metrics.deserialize(keras.metrics.serialize(metric))
    assert type(restored) is metric_class
    assert restored.get_config() == metric.get_config()
    assert result_of(restored, batches) == pytest.approx(result_of(metric, batches))


def test_low_precision_logits_are_taken(batches: Batches) -> None:
    labels, logits = batches[2]
    low = ops.cast(logits, "bfloat16")
    exact = [(labels, ops.convert_to_numpy(ops.cast(low, "float32")))]
    metric = Perplexity()
    metric.update_state(labels, low)
    assert float(metric.result()) == pytest.approx(result_of(Perplexity(), exact), rel=1e-5)


LABELS = np.array([[5, 2, 6, 0, 0], [1, 3, 0, 0, 0], [4, 4, 4, 6, 1]], dtype="int32")  # 10 tokens of 15
VALIDATION = np.array([[1, 0, 0, 0, 0, 0, 0]], dtype="int32")


class Clock:
    """Stands still but where it is moved."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


class Passing(keras.callbacks.Callback):
    """Lets a batch of training take 2 seconds, one of validation 5, and what comes after the epoch 7."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.clock.now += 2

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.clock.now += 5

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.clock.now += 7


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("keras_transformer.training.metrics.time", clock)
    return clock


def make_model(*metrics: keras.metrics.Metric) -> keras.Model:
    model = keras.Sequential([keras.Input((None,), dtype="int32"), keras.layers.Embedding(7, 7)])
    model.compile("sgd", MaskedCrossentropy(), metrics=list(metrics), jit_compile=False)
    return model


@pytest.mark.parametrize("metric", [MaskedAccuracy, Perplexity])
@pytest.mark.parametrize("validation", [None, (VALIDATION, VALIDATION)])
def test_real_tokens_of_the_training_time(clock: Clock, metric: Any, validation: Any) -> None:
    model = make_model(metric())
    options: dict[str, Any] = {"batch_size": 2, "epochs": 2, "verbose": 0, "validation_data": validation}
    history = model.fit(LABELS, LABELS, callbacks=[Throughput(), Passing(clock)], **options).history
    assert history["tokens_per_second"] == [10 / 4, 10 / 4]  # two batches, 2 seconds each
    assert history["padding"] == pytest.approx([1 / 3, 1 / 3])


def test_tensorboard_gets_both(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = keras.callbacks.TensorBoard(tmp_path, write_graph=False)
    make_model(MaskedAccuracy()).fit(LABELS, LABELS, verbose=0, callbacks=[Throughput(), board])
    events = loader.EventAccumulator(str(tmp_path / "train"))
    events.Reload()
    assert {"epoch_tokens_per_second", "epoch_padding"} <= set(events.Tags()["tensors"])


# Keras has no perplexity; of its own metrics that one falls whose exponential it is.
WITNESSES = {
    MaskedAccuracy: keras.metrics.SparseCategoricalAccuracy,
    Perplexity: keras.metrics.SparseCategoricalCrossentropy,
}
MONITORING = [
    keras.callbacks.EarlyStopping,
    keras.callbacks.ReduceLROnPlateau,
    lambda monitor, mode="auto": keras.callbacks.ModelCheckpoint(
        "{epoch}.weights.h5", monitor, save_best_only=True, save_weights_only=True, mode=mode
    ),
]


def test_every_metric_that_is_sold_has_a_witness() -> None:
    sold = [getattr(training, name) for name in training.__all__]
    metrics = [each for each in sold if isinstance(each, type) and issubclass(each, keras.metrics.Metric)]
    assert set(metrics) == set(WITNESSES)


@pytest.mark.parametrize("make_callback", MONITORING)
@pytest.mark.parametrize("metric_class", WITNESSES)
def test_callbacks_of_keras_know_what_is_better(
    metric_class: Any, make_callback: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    metric = metric_class()
    callback = make_callback(f"val_{metric.name}")
    make_model(metric).fit(LABELS, LABELS, validation_data=(LABELS, LABELS), verbose=0, callbacks=[callback])
    same = WITNESSES[metric_class](name=metric.name)
    expected = make_callback(f"val_{metric.name}")
    expected.set_model(make_model(same))
    expected.model.fit(LABELS, LABELS, validation_data=(LABELS, LABELS), verbose=0, callbacks=[expected])
    assert callback.monitor_op is expected.monitor_op


def test_a_model_that_counts_nothing_gets_no_numbers() -> None:
    model = make_model(keras.metrics.SparseCategoricalAccuracy())
    history = model.fit(LABELS, LABELS, verbose=0, callbacks=[Throughput()]).history
    assert set(history) == {"loss", "sparse_categorical_accuracy"}
