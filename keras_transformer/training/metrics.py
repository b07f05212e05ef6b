"""Token metrics that ignore padding: accuracy, perplexity, tokens per second."""

import math
import time
from numbers import Integral
from typing import Any, Literal

import keras
from keras import ops

from keras_transformer._arguments import check_kind
from keras_transformer.training.losses import _check_label_shape, _known_labels, _token_weights, _weighted_sum
from keras_transformer.types import Tensor


class _TokenMean(keras.metrics.Metric):
    """Mean of a value over tokens that are not padding. Also counts tokens for `Throughput`."""

    _direction: Literal["up", "down"]  # which direction is better, for Keras's callbacks

    def __init__(self, pad_id: int, name: str, **kwargs: Any) -> None:
        check_kind(Integral, pad_id=pad_id)
        super().__init__(name=name, **kwargs)
        self.pad_id = pad_id
        self.total = self.add_weight(name="total", initializer="zeros")
        self.num_tokens = self.add_weight(name="num_tokens", initializer="zeros")
        self.num_positions = self.add_weight(name="num_positions", initializer="zeros")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        _check_label_shape(y_true, y_pred)
        weights = _token_weights(y_true, self.pad_id, sample_weight)
        self.total.assign_add(_weighted_sum(self._values(y_true, y_pred), weights))
        self.num_tokens.assign_add(ops.sum(weights))
        self.num_positions.assign_add(ops.cast(ops.size(weights), "float32"))

    def _values(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Return the value of each token, `(b, t)`."""
        raise NotImplementedError

    def result(self) -> Tensor:
        return ops.divide_no_nan(self.total, self.num_tokens)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "pad_id": self.pad_id}


@keras.saving.register_keras_serializable(package="keras_transformer")
class MaskedAccuracy(_TokenMean):
    """Token accuracy without padding: the fraction of tokens whose most likely prediction is the label.

    It is 0 as long as there are no tokens.

    Args:
        pad_id: Label of padding, which is ignored. Defaults to 0.
        name: Name of the metric.
        **kwargs: `dtype` of a Keras metric.

    Call arguments are those of `MaskedCrossentropy`.
    """

    _direction = "up"

    def __init__(self, pad_id: int = 0, name: str = "accuracy", **kwargs: Any) -> None:
        super().__init__(pad_id, name, **kwargs)

    def _values(self, labels: Tensor, logits: Tensor) -> Tensor:
        predictions = ops.cast(ops.argmax(logits, axis=-1), "int32")
        return ops.cast(ops.equal(predictions, ops.cast(labels, "int32")), "float32")


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(_TokenMean):
    """Perplexity without padding: the exponential of the mean cross-entropy per token, without smoothing.

    It is 1 as long as there are no tokens. It becomes NaN if a label with a nonzero sample weight is outside
    the vocabulary and not padding.

    Args:
        pad_id: Label of padding, which is ignored. Defaults to 0.
        name: Name of the metric.
        **kwargs: `dtype` of a Keras metric.

    Call arguments are those of `MaskedCrossentropy`.
    """

    _direction = "down"

    def __init__(self, pad_id: int = 0, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(pad_id, name, **kwargs)

    def _values(self, labels: Tensor, logits: Tensor) -> Tensor:
        labels, is_known = _known_labels(labels, logits.shape[-1], self.pad_id)
        logits = ops.cast(logits, "float32")
        label_logits = ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]  # (b, t)
        # No gradient is needed; this is three times as fast as the cross-entropy of the loss.
        return ops.where(is_known, ops.logsumexp(logits, axis=-1) - label_logits, math.nan)

    def result(self) -> Tensor:
        """Return the perplexity of all tokens so far."""
        return ops.exp(super().result())


class Throughput(keras.callbacks.Callback):
    """Callback that logs training speed (`tokens_per_second`) and the fraction of padding.

    `tokens_per_second` counts target tokens without padding. The time excludes validation and other callbacks
    at the end of an epoch; in the first epoch it includes compilation. `padding` is the fraction of target
    positions that are padding, from 0 to 1.

    The counts come from `MaskedAccuracy` or `Perplexity`, which `compile_model` adds. Without one of them
    nothing is logged. Put this callback before those that read the logs, such as
    `keras.callbacks.TensorBoard`.

    Example:
        ```python
        model.fit(dataset, callbacks=[Throughput(), keras.callbacks.TensorBoard("logs")])
        ```
    """

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Start the clock."""
        self._values: dict[str, float] = {}
        self._start = time.perf_counter()

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        """Read the counts before validation resets them."""
        self._values = self._values or self._read_counts()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Add speed and padding to the logs."""
        if logs is not None:
            logs.update(self._values or self._read_counts())

    def _read_counts(self) -> dict[str, float]:
        # This slows down no step: the metrics keep the counts on the device anyway.
        counting = next(
            (each for each in _compiled_metrics(self.model) if isinstance(each, _TokenMean)), None
        )
        if counting is None:
            return {}
        # Read the counts before the clock: reading waits for the last step on the device.
        num_tokens, num_positions = (
            float(ops.convert_to_numpy(count)) for count in (counting.num_tokens, counting.num_positions)
        )
        seconds = time.perf_counter() - self._start
        return {
            "tokens_per_second": num_tokens / seconds,
            "padding": 1 - num_tokens / max(num_positions, 1.0),
        }


def _compiled_metrics(model: keras.Model) -> list[keras.metrics.Metric]:
    # Keras wraps the metrics of `compile` in one metric.
    return [each for metric in model.metrics for each in getattr(metric, "metrics", [metric])]


def _rises(model: keras.Model, monitor: str) -> bool:
    """Return whether a higher value of a logged metric is better, by the rules of Keras's callbacks."""
    name = monitor.removeprefix("val_")
    directions = [getattr(each, "_direction", "") for each in _compiled_metrics(model) if each.name == name]
    return "up" in directions
