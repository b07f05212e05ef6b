"""Accuracy and perplexity over real tokens."""

import math
import time
from typing import Any

import keras
from keras import ops

from keras_transformer.training.losses import check_label_shape, known_labels, padding_as_zero, token_weights
from keras_transformer.types import Tensor


class TokenMean(keras.metrics.Metric):
    """The mean of a number per token over all tokens that are not padding.

    The base of the metrics here. It also counts, which `Throughput` reads.

    Args:
        pad_id: the label that is padding and does not count.
        name: the name of the metric.
        **kwargs: `dtype` of a Keras metric.
    """

    def __init__(self, pad_id: int = 0, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.pad_id = pad_id
        self.total = self.add_weight(name="total", initializer="zeros")
        self.num_tokens = self.add_weight(name="num_tokens", initializer="zeros")
        self.num_positions = self.add_weight(name="num_positions", initializer="zeros")

    def update_state(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add a batch.

        Args:
            y_true: labels, integers `(b, t)`.
            y_pred: logits `(b, t, v)`.
            sample_weight: `(b,)` or `(b, t)`, how much a token counts.

        Raises:
            ValueError: labels or logits of another rank.
        """
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        check_label_shape(y_true, y_pred)
        weights = token_weights(y_true, self.pad_id, sample_weight)
        values = self.token_values(y_true, y_pred)
        # Not a product alone: what does not count may be no number.
        self.total.assign_add(ops.sum(ops.where(ops.equal(weights, 0), 0.0, values * weights)))
        self.num_tokens.assign_add(ops.sum(weights))
        self.num_positions.assign_add(ops.cast(ops.size(weights), "float32"))

    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Compute the number of each token.

        Args:
            labels: integers `(b, t)`.
            logits: `(b, t, v)`.

        Returns:
            A float32 tensor `(b, t)`.
        """
        raise NotImplementedError

    def result(self) -> Tensor:
        """Give the mean over all tokens so far.

        Returns:
            A float32 scalar; 0 before the first token.
        """
        return ops.divide_no_nan(self.total, self.num_tokens)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "pad_id": self.pad_id}


@keras.saving.register_keras_serializable(package="keras_transformer")
class MaskedAccuracy(TokenMean):
    """The share of tokens whose most likely prediction is the label.

    Args:
        pad_id: the label that is padding and does not count.
        name: the name of the metric.
        **kwargs: `dtype` of a Keras metric.
    """

    def __init__(self, pad_id: int = 0, name: str = "accuracy", **kwargs: Any) -> None:
        super().__init__(pad_id, name, **kwargs)

    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Give 1 for a right token and 0 for a wrong one; shapes as in the base class."""
        predictions = ops.cast(ops.argmax(logits, axis=-1), "int32")
        return ops.cast(ops.equal(predictions, ops.cast(labels, "int32")), "float32")


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMean):
    """The exponential of the mean cross-entropy of a token, without smoothing.

    Args:
        pad_id: the label that is padding and does not count.
        name: the name of the metric.
        **kwargs: `dtype` of a Keras metric.
    """

    def __init__(self, pad_id: int = 0, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(pad_id, name, **kwargs)

    def token_values(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Give each token's cross-entropy, NaN for a label of no vocabulary; shapes as in the base class."""
        labels, is_known = known_labels(padding_as_zero(labels, self.pad_id), logits.shape[-1])
        logits = ops.cast(logits, "float32")
        label_logits = ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]  # (b, t)
        # Without a gradient this is thrice as fast as `token_crossentropy`.
        return ops.where(is_known, ops.logsumexp(logits, axis=-1) - label_logits, math.nan)

    def result(self) -> Tensor:
        """Give the perplexity of all tokens so far.

        Returns:
            A float32 scalar; 1 before the first token.
        """
        return ops.exp(super().result())


class Throughput(keras.callbacks.Callback):
    """Adds the target tokens of a second, and the share of padding, to the logs of each epoch.

    `tokens_per_second` counts real tokens, so that it does not rise with padding. The clock runs while
    batches are trained: neither validation nor what other callbacks do at the end of an epoch counts. In
    the first epoch it also runs while the backend traces or compiles the step. `padding` is the share of
    target positions that hold no token, 0 to 1.

    No step is slower for it: the counts are those that `MaskedAccuracy` and `Perplexity` keep on the
    device for their means, read once an epoch. One of them must be in `metrics` of `compile`, which
    `compile_model` sees to. Put it before the callbacks that read the logs, such as
    `keras.callbacks.TensorBoard`.

    Args:
        required: whether a model that counts nothing is refused; if not, nothing is added.

    Raises:
        ValueError: the model was compiled with neither metric; at the end of the first epoch.

    Example:
        ```python
        model.fit(dataset, callbacks=[Throughput(), keras.callbacks.TensorBoard("logs")])
        ```
    """

    def __init__(self, *, required: bool = True) -> None:
        super().__init__()
        self.required = required
        self._start = 0.0
        self._values: dict[str, float] = {}

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Start the clock."""
        self._values = {}
        self._start = time.perf_counter()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Read the counts before validation counts its own."""
        self._values = self._values or self._read()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Add both numbers.

        Args:
            epoch: counted from 0.
            logs: each metric's value; both numbers are added.
        """
        self._values = self._values or self._read()
        if logs is not None:
            logs.update(self._values)

    def _read(self) -> dict[str, float]:
        metric = _token_mean(self.model)
        if metric is None:
            if self.required:
                raise ValueError(_message(self.model))
            return {}
        # First the counts, then the clock: reading them waits for the last step on the device.
        num_tokens, num_positions = (
            float(ops.convert_to_numpy(count)) for count in (metric.num_tokens, metric.num_positions)
        )
        seconds = time.perf_counter() - self._start
        return {
            "tokens_per_second": num_tokens / seconds,
            "padding": 1 - num_tokens / max(num_positions, 1.0),
        }


def _token_mean(model: keras.Model) -> TokenMean | None:
    """Find a metric that counts tokens."""
    return next((metric for metric in _metrics(model) if isinstance(metric, TokenMean)), None)


def _metrics(model: keras.Model) -> list[keras.metrics.Metric]:
    # Keras puts those of `compile` into one metric that has them as its `metrics`.
    return [each for metric in model.metrics for each in getattr(metric, "metrics", [metric])]


def _message(model: keras.Model) -> str:
    return (
        "The model must be compiled with `MaskedAccuracy` or `Perplexity` among its `metrics`, which count "
        f"tokens. Received: metrics={[metric.name for metric in _metrics(model)]}."
    )
