"""Cross-entropy over real tokens, with label smoothing."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.backend import add_at_labels, after, sum_over_replicas
from keras_transformer.types import Tensor


def check_label_shape(labels: Tensor, logits: Tensor) -> None:
    """Refuse labels of classes for whole rows, one-hot labels, and others that are not one id a token.

    Args:
        labels: to be `(b, t)`.
        logits: to be `(b, t, v)`.

    Raises:
        ValueError: they are not.
    """
    is_fitting = len(labels.shape) == 2 and len(logits.shape) == 3
    if is_fitting and all(
        size == wanted or None in (size, wanted)
        for size, wanted in zip(labels.shape, logits.shape[:2], strict=True)
    ):
        return
    raise ValueError(
        "Labels must be integers (b, t) beside logits (b, t, v), and the label 0 is padding; for one class a "
        "row use keras.losses.SparseCategoricalCrossentropy(from_logits=True). "
        f"Received: labels of shape {tuple(labels.shape)}, logits of shape {tuple(logits.shape)}."
    )


def known_labels(labels: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Find the labels that a vocabulary has; negative ones would count from its end.

    Args:
        labels: integers `(b, t)`.
        size: of the vocabulary.

    Returns:
        Integers `(b, t)`, 0 in the place of others, and booleans `(b, t)`, which are known.
    """
    labels = ops.cast(labels, "int32")
    is_known = ops.logical_and(labels >= 0, labels < size)
    return ops.where(is_known, labels, 0), is_known


def padding_as_zero(labels: Tensor, pad_id: int) -> Tensor:
    """Give padding a label that every vocabulary has.

    Args:
        labels: integers `(b, t)`.
        pad_id: the label that is padding, which has no weight.

    Returns:
        Integers `(b, t)`.
    """
    return ops.where(ops.equal(labels, pad_id), 0, labels) if pad_id else labels


def token_weights(labels: Tensor, pad_id: int, sample_weight: Tensor | None = None) -> Tensor:
    """Say how much each token counts: padding nothing, others one or their weight.

    Args:
        labels: integers `(b, t)`.
        pad_id: the label that is padding.
        sample_weight: `(b,)` or `(b, t)`, or None.

    Returns:
        A float32 tensor `(b, t)`.

    Raises:
        ValueError: sample weights of another rank.
    """
    weights = ops.cast(ops.not_equal(labels, pad_id), "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    if len(sample_weight.shape) not in (1, 2):
        raise ValueError(
            "`sample_weight` must be (b,) or (b, t) beside labels (b, t). "
            f"Received: sample_weight of shape {tuple(sample_weight.shape)}."
        )
    if len(sample_weight.shape) == 1:
        sample_weight = sample_weight[:, None]
    return weights * sample_weight


def token_crossentropy(
    labels: Tensor, logits: Tensor, label_smoothing: float = 0.0, z_loss: float = 0.0
) -> Tensor:
    """Compute the cross-entropy of each token, in float32.

    The label has the probability `1 - e`, and `e` is spread evenly over the
    vocabulary (Szegedy et al. 2016, section 7):
    `log sum exp(logits) - (1 - e) * (logit of the label) - e * (mean logit)`.
    With `z_loss` its product with `(log sum exp(logits)) ** 2` is added; see `MaskedCrossentropy`.
    The gradient is written out, since over a large vocabulary the derived one
    takes four times as long: a dense tensor for each of the three terms.

    Args:
        labels: integers `(b, t)`.
        logits: `(b, t, v)`.
        label_smoothing: the probability `e` that is spread.
        z_loss: how much the normaliser `log sum exp(logits)` is drawn to 0.

    Returns:
        A float32 tensor `(b, t)`; NaN where a label is none of the vocabulary.
    """
    labels, is_known = known_labels(labels, logits.shape[-1])
    labels = labels[..., None]  # (b, t, 1)

    @ops.custom_gradient
    def crossentropy(logits: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        """Give the losses, and how their gradient is computed."""
        label_logits = _float32(ops.take_along_axis(logits, labels, axis=-1))
        precise = _float32(logits)  # (b, t, v)
        probabilities = ops.softmax(precise, axis=-1)
        # The logarithm of the sum of exponentials is that of the likeliest token, which is at least 1 / v.
        likeliest = ops.max(probabilities, axis=-1, keepdims=True)  # (b, t, 1)
        maxima = ops.max(precise, axis=-1, keepdims=True)
        normalizers = maxima - ops.log(likeliest)  # (b, t, 1)
        losses = normalizers * (1 + z_loss * normalizers) - (1 - label_smoothing) * label_logits
        if label_smoothing:
            losses = losses - label_smoothing * ops.mean(precise, axis=-1, keepdims=True)

        def gradient(*arguments: Tensor, upstream: Tensor | None = None) -> Tensor:
            """Give the softmax less the smoothed labels, times the upstream gradient."""
            # TensorFlow and JAX hand the upstream gradient over by position, torch by name.
            scale = (arguments[0] if upstream is None else upstream)[..., None]  # (b, t, 1)
            # Nobody else reads them then, and what follows is computed where they are.
            (dense,) = after([losses], [probabilities])
            dense = dense * (scale * (1 + 2 * z_loss * normalizers))
            if label_smoothing:
                dense = dense - label_smoothing / logits.shape[-1] * scale
            # Rounded first, since all that follows is one number for each label.
            dense, values = (ops.cast(x, logits.dtype) for x in (dense, (label_smoothing - 1) * scale))
            return add_at_labels(dense, labels, values)

        return losses[..., 0], gradient

    return ops.where(is_known, crossentropy(logits), math.nan)


def _float32(tensor: Tensor) -> Tensor:
    return ops.cast(tensor, "float32")


@keras.saving.register_keras_serializable(package="keras_transformer")
class MaskedCrossentropy(keras.losses.Loss):
    """The mean cross-entropy over the labels that are not padding.

    Keras divides by the number of positions, padding included, so that a
    batch's loss depends on how far it is padded. This one divides by the
    number of real tokens, on all replicas of a `tf.distribute` strategy together.

    What Keras shows as `loss` and `val_loss` of an epoch is its own mean of the batches' losses, weighed by
    their rows, so batches of short rows weigh more; `Perplexity` is over all tokens alike.

    The cross-entropy does not mind what is added to all logits of a token alike, so that it may grow
    until half precision no longer tells logits apart. `z_loss` adds
    `z_loss * (log sum exp(logits)) ** 2`, which keeps logits where they can be told apart (Chowdhery et al.
    2022, "PaLM", section 5, with 1e-4); `compile_model` has it where layers compute in half precision.

    Args:
        label_smoothing: the probability that is spread over the vocabulary.
        pad_id: the label that is padding; also one that no vocabulary has, such as -100.
        name: the name of the loss.
        normalize: whether the sum is divided by that of the sample weights. False where they say
            it all, as those of `data.weigh_for_accumulation` do; without any it is a mean still.
        z_loss: how much the logarithm of the softmax's denominator is drawn to 0.
        **kwargs: `dtype` of a Keras loss.

    Call arguments:
        y_true: labels, integers `(b, t)`.
        y_pred: logits `(b, t, v)`.
        sample_weight: `(b,)` or `(b, t)`, how much a token counts.

    Returns:
        A float32 scalar; 0 where there is no token at all, NaN where a label that counts is neither
        padding nor in the vocabulary.

    Raises:
        ValueError: a smoothing outside [0, 1), a `z_loss` that is below 0 or not finite, or labels that are
            no `(b, t)` beside logits `(b, t, v)`.
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
        # The reduction is this class's own: over tokens, not over positions.
        super().__init__(name=name, reduction=None, **kwargs)
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                "`label_smoothing` must be at least 0 and below 1. "
                f"Received: label_smoothing={label_smoothing}."
            )
        if not 0 <= z_loss < math.inf:
            raise ValueError(f"`z_loss` must be at least 0 and finite. Received: z_loss={z_loss}.")
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id
        self.normalize = normalize
        self.z_loss = z_loss

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        check_label_shape(y_true, y_pred)
        return self.reduce(self.call(y_true, y_pred), y_true, sample_weight)

    def reduce(self, values: Tensor, labels: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Compute the mean of a value per token as that of the loss is computed.

        Args:
            values: `(b, t)`, any number where there is padding.
            labels: integers `(b, t)`.
            sample_weight: `(b,)` or `(b, t)`, or None.

        Returns:
            A scalar.
        """
        weights = token_weights(labels, self.pad_id, sample_weight)
        # Not a product alone: the loss of a label that does not count and that no vocabulary has is NaN.
        total = ops.sum(ops.where(ops.equal(weights, 0), 0.0, values * weights))
        if sample_weight is not None and not self.normalize:
            return total
        # At least one, since a batch without a token has the loss 0, not NaN.
        return total / _one_if_zero(sum_over_replicas(ops.sum(weights)))

    def shares(self, parts: Sequence[tuple[Tensor, Tensor | None]]) -> list[Tensor]:
        """Say how much the losses of parts of a batch count: with these factors they add up to its own.

        Args:
            parts: of each its labels `(b, t)` and sample weights `(b,)`, `(b, t)` or None.

        Returns:
            A scalar for each part.
        """
        if parts[0][1] is not None and not self.normalize:
            return [ops.ones(()) for _ in parts]
        totals = [ops.sum(token_weights(labels, self.pad_id, weights)) for labels, weights in parts]
        whole = _one_if_zero(sum(totals[1:], start=totals[0]))
        return [total / whole for total in totals]

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        labels = padding_as_zero(y_true, self.pad_id)
        return token_crossentropy(labels, y_pred, self.label_smoothing, self.z_loss)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "label_smoothing": self.label_smoothing,
            "pad_id": self.pad_id,
            "normalize": self.normalize,
            "z_loss": self.z_loss,
        }


def _one_if_zero(total: Tensor) -> Tensor:
    return ops.where(ops.equal(total, 0), ops.ones_like(total), total)
