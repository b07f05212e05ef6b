"""Cross-entropy that ignores padding, with label smoothing and z-loss."""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import check_flags, check_kind, check_number, check_rates
from keras_transformer._backend.distribution import sum_over_replicas
from keras_transformer._backend.gradients import add_at_labels, differentiates_gradients, order_after
from keras_transformer.types import Tensor


def _rank(tensor: Tensor) -> int | None:
    """Return the rank; None after TensorFlow has traced a function for two ranks."""
    return tensor.shape.rank if hasattr(tensor.shape, "rank") else len(tensor.shape)


def _check_label_shape(labels: Tensor, logits: Tensor) -> None:
    """Raise unless labels are one id per token; rejects classes per row and one-hot labels."""
    ranks = _rank(labels), _rank(logits)
    shapes = [
        None if rank is None else tuple(each.shape)
        for rank, each in zip(ranks, (labels, logits), strict=True)
    ]
    is_fitting = ranks == (2, 3) and all(
        size == wanted or None in (size, wanted)
        for size, wanted in zip(labels.shape, logits.shape, strict=False)
    )
    if not is_fitting:
        raise ValueError(
            "Labels must be integers (b, t) for logits (b, t, v), and the label 0 is padding; for one class "
            "a row use keras.losses.SparseCategoricalCrossentropy(from_logits=True). "
            f"Received: labels of shape {shapes[0]}, logits of shape {shapes[1]}."
        )


def _known_labels(labels: Tensor, size: int, pad_id: int = 0) -> tuple[Tensor, Tensor]:
    """Return labels `(b, t)` with unknown ids replaced by 0, and which are known `(b, t)`."""
    labels = ops.cast(labels, "int32")
    if pad_id:
        labels = ops.where(ops.equal(labels, pad_id), 0, labels)
    # Negative labels would index from the end of the vocabulary.
    is_known = ops.logical_and(labels >= 0, labels < size)
    return ops.where(is_known, labels, 0), is_known


def _token_weights(labels: Tensor, pad_id: int, sample_weight: Tensor | None = None) -> Tensor:
    """Return the weight of each token, `(b, t)`: 0 for padding, else 1 or its sample weight."""
    weights = ops.cast(ops.not_equal(labels, pad_id), "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    rank = _rank(sample_weight)
    if rank is None:
        return weights * ops.reshape(sample_weight, (ops.shape(labels)[0], -1))  # (b, 1) or (b, t)
    if rank not in (1, 2):
        raise ValueError(
            "`sample_weight` must be (b,) or (b, t) for labels (b, t). "
            f"Received: sample_weight of shape {tuple(sample_weight.shape)}."
        )
    return weights * (sample_weight[:, None] if rank == 1 else sample_weight)


def _weighted_sum(values: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of `values * weights`. Values of weight 0 may be NaN, such as losses of padding."""
    return ops.sum(ops.where(ops.equal(weights, 0), 0.0, values * weights))


def _crossentropy(labels: Tensor, logits: Tensor, label_smoothing: float, z_loss: float) -> Tensor:
    """Return the cross-entropy `(b, t)` of known labels `(b, t)` in float32."""
    # Label smoothing with e (Szegedy et al. 2016, section 7):
    # log sum exp(logits) - (1 - e) * (logit of the label) - e * (mean logit).
    labels = labels[..., None]  # (b, t, 1)

    # A custom gradient, because automatic differentiation takes four times as long over a large vocabulary:
    # it builds a dense tensor for each of the three terms. Rejected: XLA, which takes 24 ms instead of 31 for
    # 2,048 tokens and 8,000 words, but compiles for each batch shape.
    @ops.custom_gradient
    def crossentropy(logits: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        label_logits = ops.cast(ops.take_along_axis(logits, labels, axis=-1), "float32")
        precise = ops.cast(logits, "float32")  # (b, t, v)
        probabilities, normalizers = _softmax(precise)
        # Adding a constant to all logits does not change the cross-entropy, so logits may drift until half
        # precision cannot separate them: in 33 epochs of R-Drop the mean logit reached 150, and the loss
        # rose again. The z-loss prevents this.
        losses = normalizers * (1 + z_loss * normalizers) - (1 - label_smoothing) * label_logits
        if label_smoothing:
            losses = losses - label_smoothing * ops.mean(precise, axis=-1, keepdims=True)

        def gradient(*arguments: Any, upstream: Tensor | None = None) -> Tensor:
            if upstream is None:  # TensorFlow and JAX pass the upstream gradient by position
                [upstream] = arguments
                # After the losses nothing else reads the probabilities, so TensorFlow reuses their memory:
                # 265 MB in addition to logits of 250 MB, and 31 ms instead of 41.
                [dense], sums = order_after([probabilities], others=[losses]), normalizers
            elif differentiates_gradients():  # torch passes the logits, too
                dense, sums = _softmax(ops.cast(arguments[0], "float32"))
            else:
                dense, sums = probabilities, normalizers
            scale = upstream[..., None]  # (b, t, 1)
            dense = dense * (scale * (1 + 2 * z_loss * sums))
            if label_smoothing:
                dense = dense - label_smoothing / logits.shape[-1] * scale
            # Round first: only one number per label is added afterwards.
            dense, values = (ops.cast(x, logits.dtype) for x in (dense, (label_smoothing - 1) * scale))
            return add_at_labels(dense, labels, values)

        return losses[..., 0], gradient

    return crossentropy(logits)


def _softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probabilities `(b, t, v)` of float32 logits, and `log sum exp(logits)`, `(b, t, 1)`."""
    probabilities = ops.softmax(logits, axis=-1)
    # log sum exp(logits) = max logit - log(max probability). The max probability is at least 1 / v. Keras
    # refuses the maximum of an empty batch without `initial`.
    likeliest = ops.max(probabilities, axis=-1, keepdims=True, initial=0.0)
    maxima = ops.max(logits, axis=-1, keepdims=True, initial=-math.inf)
    return probabilities, maxima - ops.log(likeliest)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MaskedCrossentropy(keras.losses.Loss):
    """Cross-entropy, averaged over all labels that are not padding.

    Without a Keras mask, Keras's cross-entropy averages over all positions, also over padding. This loss
    divides by the number of real tokens, over all replicas of a `tf.distribute` strategy.

    Keras logs `loss` and `val_loss` as the mean of the batch losses, each weighted by its number of rows. So
    at equal tokens, a batch of short texts, which has more rows, weighs more. In `Perplexity`, all tokens
    have the same weight.

    On JAX and torch, the loss has derivatives in reverse mode only (no `jax.jvp`); `jax.hessian` works.

    The z-loss adds `z_loss * (log sum exp(logits)) ** 2` (Chowdhery et al. 2022, "PaLM", section 5:
    `z_loss` is 1e-4). `compile_model` enables it in half precision.

    Args:
        label_smoothing: Probability mass to spread over the vocabulary. Defaults to 0.
        pad_id: Label of padding, possibly outside the vocabulary, such as -100. Defaults to 0.
        name: Name of the loss.
        normalize: Whether to divide the weighted sum by the sum of the sample weights. Pass False if the
            sample weights are already normalized over all tokens of an update, as `training.fit` does with
            gradient accumulation. Without sample weights, the loss is always a mean. Defaults to True.
        z_loss: Weight of the z-loss. Defaults to 0.
        **kwargs: `dtype` of a Keras loss.

    Call arguments:
        y_true: Labels, integers `(b, t)`.
        y_pred: Logits `(b, t, v)`.
        sample_weight: Weight of each row `(b,)` or token `(b, t)`.

    Returns:
        A float32 scalar. 0 if the batch has no token; NaN if a label with a nonzero weight is outside the
        vocabulary and not padding.

    Raises:
        ValueError: If `label_smoothing` is outside [0, 1), `z_loss` is below 0 or not finite, or the shape of
            the labels is not `(b, t)` for logits `(b, t, v)`.
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
        # No reduction by Keras, which would average over positions.
        super().__init__(name=name, reduction=None, **kwargs)
        check_rates(label_smoothing=label_smoothing)
        check_number(z_loss=z_loss)
        check_kind(Integral, pad_id=pad_id)
        check_flags(normalize=normalize)
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id
        self.normalize = normalize
        self.z_loss = z_loss
        # `fit` sets it while the sample weights are shares of an update; checkpoints do not save it.
        self._weights_are_shares = False

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        _check_label_shape(y_true, y_pred)
        return self._mean(self.call(y_true, y_pred), y_true, sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        labels, is_known = _known_labels(y_true, y_pred.shape[-1], self.pad_id)
        losses = _crossentropy(labels, y_pred, self.label_smoothing, self.z_loss)
        return ops.where(is_known, losses, math.nan)

    def _mean(self, values: Tensor, labels: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Return the mean of values `(b, t)` over real tokens."""
        weights = _token_weights(labels, self.pad_id, sample_weight)
        total = _weighted_sum(values, weights)
        if sample_weight is not None and (self._weights_are_shares or not self.normalize):
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
    """Replace 0 by 1, so that a batch without tokens has loss 0, not NaN."""
    return ops.where(ops.equal(total, 0), ops.ones_like(total), total)
