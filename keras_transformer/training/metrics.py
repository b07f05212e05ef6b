"""Accuracy and perplexity over real tokens."""

import math
from typing import Any

import keras
from keras import ops

from keras_transformer.training.labels import (
    check_label_shape,
    known_labels,
    padding_as_zero,
    token_weights,
)
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
