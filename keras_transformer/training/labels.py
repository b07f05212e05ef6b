"""Labels: which of them count, and which the vocabulary has."""

from keras import ops

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
