"""Cross-entropy over real tokens, with label smoothing and z-loss."""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import check_flags, check_kind, check_number, check_rates
from keras_transformer._backend.distribution import sum_over_replicas
from keras_transformer._backend.gradients import add_at_labels, finished
from keras_transformer.types import Tensor


def _check_label_shape(labels: Tensor, logits: Tensor) -> None:
    """Raise unless labels are one id for each token: classes of rows and one-hot labels are not."""
    sizes = zip(labels.shape, logits.shape, strict=False)
    is_fitting = all(size == wanted or None in (size, wanted) for size, wanted in sizes)
    if (len(labels.shape), len(logits.shape)) != (2, 3) or not is_fitting:
        raise ValueError(
            "Labels must be integers (b, t) for logits (b, t, v), and the label 0 is padding; for one class "
            "a row use keras.losses.SparseCategoricalCrossentropy(from_logits=True). "
            f"Received: labels of shape {tuple(labels.shape)}, logits of shape {tuple(logits.shape)}."
        )


def _known_labels(labels: Tensor, size: int, pad_id: int = 0) -> tuple[Tensor, Tensor]:
    """Return labels `(b, t)` with 0 for those of no vocabulary, and which are known `(b, t)`."""
    labels = ops.cast(labels, "int32")
    if pad_id:
        labels = ops.where(ops.equal(labels, pad_id), 0, labels)
    # Negative labels would count from the end of the vocabulary.
    is_known = ops.logical_and(labels >= 0, labels < size)
    return ops.where(is_known, labels, 0), is_known


def _token_weights(labels: Tensor, pad_id: int, sample_weight: Tensor | None = None) -> Tensor:
    """Return how much each token counts, `(b, t)`: padding nothing, others one or their weight."""
    weights = ops.cast(ops.not_equal(labels, pad_id), "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    if len(sample_weight.shape) not in (1, 2):
        raise ValueError(
            "`sample_weight` must be (b,) or (b, t) for labels (b, t). "
            f"Received: sample_weight of shape {tuple(sample_weight.shape)}."
        )
    return weights * (sample_weight[:, None] if len(sample_weight.shape) == 1 else sample_weight)


def _weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    """Sum `values * weights`; what has no weight may be NaN, as the loss of padding outside a vocabulary."""
    return ops.sum(ops.where(ops.equal(weights, 0), 0.0, values * weights))


def _crossentropy(labels: Tensor, logits: Tensor, label_smoothing: float, z_loss: float) -> Tensor:
    """Compute the cross-entropy `(b, t)` of labels `(b, t)` that the vocabulary has, in float32."""
    # The label has the probability 1 - e, and e is spread evenly over the vocabulary (Szegedy et al. 2016,
    # section 7): log sum exp(logits) - (1 - e) * (logit of the label) - e * (mean logit).
    labels = labels[..., None]  # (b, t, 1)

    # The gradient is written out, since over a large vocabulary the derived one takes four times as long: a
    # dense tensor for each of the three terms. Rejected: XLA, which would take 24 ms instead of 31 for 2,048
    # tokens and 8,000 words, but compiles again for each shape of a batch.
    @ops.custom_gradient
    def crossentropy(logits: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        label_logits = ops.cast(ops.take_along_axis(logits, labels, axis=-1), "float32")
        precise = ops.cast(logits, "float32")  # (b, t, v)
        probabilities = ops.softmax(precise, axis=-1)
        # The logarithm of the sum of exponentials is that of the likeliest token, which is at least 1 / v.
        likeliest = ops.max(probabilities, axis=-1, keepdims=True)  # (b, t, 1)
        maxima = ops.max(precise, axis=-1, keepdims=True)
        normalizers = maxima - ops.log(likeliest)  # (b, t, 1)
        # The cross-entropy does not change when a number is added to all logits of a token, so logits may
        # drift until half precision no longer tells them apart: in 33 epochs of R-Drop the mean logit went
        # to 150, and the loss rose again. The z-loss holds them.
        losses = normalizers * (1 + z_loss * normalizers) - (1 - label_smoothing) * label_logits
        if label_smoothing:
            losses = losses - label_smoothing * ops.mean(precise, axis=-1, keepdims=True)

        def gradient(*arguments: Any, upstream: Tensor | None = None) -> Tensor:
            # TensorFlow and JAX hand the upstream gradient over by position, torch by name.
            scale = (arguments[0] if upstream is None else upstream)[..., None]  # (b, t, 1)
            # Once the losses are there nobody else reads the probabilities, and TensorFlow computes in their
            # memory: 265 MB beyond logits of 250, and 31 ms instead of 41.
            (dense,) = finished([probabilities], others=[losses])
            dense = dense * (scale * (1 + 2 * z_loss * normalizers))
            if label_smoothing:
                dense = dense - label_smoothing / logits.shape[-1] * scale
            # Rounded first, since all that follows is one number for each label.
            dense, values = (ops.cast(x, logits.dtype) for x in (dense, (label_smoothing - 1) * scale))
            return add_at_labels(dense, labels, values)

        return losses[..., 0], gradient

    return crossentropy(logits)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MaskedCrossentropy(keras.losses.Loss):
    """The mean cross-entropy over the labels that are not padding.

    Keras divides by the number of positions, padding included, so a batch's loss depends on how far it is
    padded. This one divides by the number of real tokens, on all replicas of a `tf.distribute` strategy
    together.

    What Keras shows as `loss` and `val_loss` of an epoch is its own mean of the batches' losses, weighted by
    their rows, so batches of short rows weigh more; `Perplexity` is over all tokens alike.

    `z_loss` adds `z_loss * (log sum exp(logits)) ** 2` (Chowdhery et al. 2022, "PaLM",
    section 5, with 1e-4); `compile_model` sets it where layers compute in half precision.

    Args:
        label_smoothing: The probability that is spread over the vocabulary.
        pad_id: The label that is padding; also one that no vocabulary has, such as -100.
        name: The name of the loss.
        normalize: Whether the sum is divided by that of the sample weights. False for weights that are
            shares of an update, as `training.fit` makes them; without weights it is a mean.
        z_loss: How strongly the logarithm of the softmax's denominator is regularised towards 0.
        **kwargs: `dtype` of a Keras loss.

    Call arguments:
        y_true: Labels, integers `(b, t)`.
        y_pred: Logits `(b, t, v)`.
        sample_weight: `(b,)` or `(b, t)`, how much a token counts.

    Returns:
        A float32 scalar; 0 where there is no token at all, NaN where a label that counts is neither
        padding nor in the vocabulary.

    Raises:
        ValueError: If `label_smoothing` is outside [0, 1), `z_loss` is below 0 or not finite, or labels are
            not `(b, t)` for logits `(b, t, v)`.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        pad_id: int = 0,
        name: str = "masked_crossentropy",
        normalize: bool = True,
        z_loss: float = 0.0,
        **kwargs: Any,
    ) -> None:
        # No reduction of Keras: the mean is over tokens, not over positions.
        super().__init__(name=name, reduction=None, **kwargs)
        check_rates(label_smoothing=label_smoothing)
        check_number(z_loss=z_loss)
        check_kind(Integral, pad_id=pad_id)
        check_flags(normalize=normalize)
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id
        self.normalize = normalize
        self.z_loss = z_loss

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        _check_label_shape(y_true, y_pred)
        return self._mean(self.call(y_true, y_pred), y_true, sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        labels, is_known = _known_labels(y_true, y_pred.shape[-1], self.pad_id)
        losses = _crossentropy(labels, y_pred, self.label_smoothing, self.z_loss)
        return ops.where(is_known, losses, math.nan)

    def _mean(self, values: Tensor, labels: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Compute the mean over real tokens of a number for each token `(b, t)`."""
        weights = _token_weights(labels, self.pad_id, sample_weight)
        total = _weighted_sum(values, weights)
        if sample_weight is not None and not self.normalize:
            return total
        return total / _one_if_zero(sum_over_replicas(ops.sum(weights)))

    def get_config(self) -> dict[str, object]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "label_smoothing": self.label_smoothing,
            "pad_id": self.pad_id,
            "normalize": self.normalize,
            "z_loss": self.z_loss,
        }


def _one_if_zero(total: Tensor) -> Tensor:
    """Divide a batch without a token by 1: its loss is 0, not NaN."""
    return ops.where(ops.equal(total, 0), ops.ones_like(total), total)
