"""Tokens a second against a clock that is set, and what is counted."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.training import MaskedAccuracy, MaskedCrossentropy, Perplexity, Throughput
from keras_transformer.training import metrics as throughput

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
    monkeypatch.setattr(throughput, "time", clock)
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


def test_a_model_that_counts_nothing_is_refused() -> None:
    model = make_model(keras.metrics.SparseCategoricalAccuracy())
    message = (
        r"`MaskedAccuracy` or `Perplexity` .* Received: metrics=\['loss', 'sparse_categorical_accuracy'\]\."
    )
    with pytest.raises(ValueError, match=message):
        model.fit(LABELS, LABELS, verbose=0, callbacks=[Throughput()])
    history = model.fit(LABELS, LABELS, verbose=0, callbacks=[Throughput(required=False)]).history
    assert set(history) == {"loss", "sparse_categorical_accuracy"}
