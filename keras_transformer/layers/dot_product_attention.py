"""Scaled dot-product attention: the pure function of the paper.

It is the reference of every faster path.
"""

from collections.abc import Callable

import keras
from keras import KerasTensor, ops

from keras_transformer.arguments import as_boolean, as_floats, known_sizes
from keras_transformer.types import Shape, Tensor


def dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
    training: bool | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Compute `softmax(Q K^T / sqrt(k)) V` for every head.

    "Attention Is All You Need", section 3.2.1, equation 1.

    Args:
        query: `(b, t, h, k)`.
        key: `(b, s, h, k)`, or fewer heads: each then serves a group of
            neighbouring query heads (Ainslie et al. 2023; Shazeer 2019).
        value: `(b, s, h, k)`, as many heads as the key; its width may differ.
        mask: broadcasts to `(b, h, t, s)`; True where the query may attend to
            the key. None lets every query attend to every key.
        bias: broadcasts to `(b, h, t, s)`, added to the logits before the softmax.
        dropout: a function of the scores `(b, h, t, s)`, applied before they
            weight the values.
        training: whether a gradient follows, which TensorFlow then computes in
            fewer operations.

    Returns:
        The output `(b, t, h, k)`, and the scores `(b, h, t, s)` after the
        softmax and before dropout. A query that may attend to nothing gets
        zeros in both.
    """
    query, key, value = (as_floats(inputs) for inputs in (query, key, value))
    key, value = (repeat_heads(heads, query.shape[2]) for heads in (key, value))
    query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
    logits = ops.einsum("bthk,bshk->bhts", query, key)
    if bias is not None:
        logits = ops.cast(logits, "float32") + ops.cast(bias, "float32")
    scores = ops.cast(masked_softmax(logits, mask, training=training), value.dtype)
    weights = scores if dropout is None else dropout(scores)
    return ops.einsum("bhts,bshk->bthk", weights, value), scores


def repeat_heads(heads: Tensor, num_heads: int) -> Tensor:
    """Give each group of query heads a copy of the key head that they share.

    Args:
        heads: keys or values, `(b, s, g, k)`; `g` divides the number of query heads.
        num_heads: the number of query heads, `h`.

    Returns:
        `(b, s, h, k)`.
    """
    num_groups = heads.shape[2]
    return heads if num_groups == num_heads else ops.repeat(heads, num_heads // num_groups, axis=2)


def masked_softmax(logits: Tensor, mask: Tensor | None = None, *, training: bool | None = None) -> Tensor:
    """Apply the softmax over the last axis, in float32, to what the mask allows.

    Args:
        logits: `(b, h, t, s)`.
        mask: broadcasts to the logits; True where a score may be above zero.
        training: whether a gradient follows, which TensorFlow then computes in
            fewer operations. The numbers are the same to rounding.

    Returns:
        Scores of the shape and dtype of the logits, or floats for integers. A row sums to one, or is
        all zeros where the mask allows nothing.

    Raises:
        TypeError: a mask that is not of booleans or numbers.
        ValueError: a mask of another size, or of other numbers than 0 and 1.
    """
    logits = as_floats(logits)
    dtype = logits.dtype
    logits = ops.cast(logits, "float32")
    if mask is None:
        return ops.cast(_softmax(logits), dtype)
    mask = as_boolean(mask, "mask")
    _check_broadcasts(known_sizes(mask.shape), known_sizes(logits.shape))
    is_open = None in tuple(mask.shape)
    if is_open and None not in known_sizes(logits.shape):
        # TensorFlow would leave out the reshape below, as one to the shape that is there already.
        mask = ops.broadcast_to(mask, logits.shape)
    if training and keras.backend.backend() == "tensorflow" and not isinstance(logits, KerasTensor):
        scores = _softmax_with_gradient(logits, mask)
    else:
        scores = _softmax_where(mask, logits)
    if is_open:  # only now is it known whether the mask has widened the scores
        scores = ops.reshape(scores, ops.shape(logits))
    return ops.cast(scores, dtype)


def _softmax_where(mask: Tensor, logits: Tensor) -> Tensor:
    """Apply the softmax to what the mask allows; the rest gets zeros."""
    # The most negative float32 rather than -inf: a row of -inf has NaN gradients.
    scores = _softmax(ops.where(mask, logits, _LOWEST))
    # A row in which nothing is allowed comes out of the softmax uniform.
    return ops.where(mask, scores, 0.0)


def _softmax_with_gradient(logits: Tensor, mask: Tensor) -> Tensor:
    """Do the same, with a gradient that needs no mask, since it is zero where the scores are."""

    @ops.custom_gradient
    def softmax(logits: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        scores = _softmax_where(mask, logits)

        def gradient(upstream: Tensor) -> Tensor:
            products = upstream * scores
            return products - scores * ops.sum(products, axis=-1, keepdims=True)

        return scores, gradient

    return softmax(logits)


def _softmax(logits: Tensor) -> Tensor:
    """Apply the softmax over the last axis."""
    if logits.shape[-1] == 1:
        # Keras warns of an axis of size 1, which is no mistake here: a single key gets everything.
        # Written so that its gradient is zero, and not absent.
        return ops.exp(logits - logits)
    return ops.softmax(logits, axis=-1)


def _check_broadcasts(mask_shape: Shape, logits_shape: Shape) -> None:
    """Refuse a mask that does not fit, or that would silently widen the logits."""
    fits = len(mask_shape) <= len(logits_shape)
    for size, wanted in zip(reversed(mask_shape), reversed(logits_shape), strict=False):
        fits = fits and (size in (1, None, wanted) or wanted is None)
    if not fits:
        raise ValueError(
            "The mask must broadcast to the scores (b, h, t, s). "
            f"Received: mask of shape {mask_shape}, scores of shape {logits_shape}."
        )


_LOWEST = -3.4028235e38


# TensorFlow has no such kernel: there Keras computes what `dot_product_attention` computes.
_BACKENDS = ("jax", "torch")


def has_fused_kernel(key_dim: int, value_dim: int) -> bool:
    """Say whether the backend has a kernel for these widths.

    Args:
        key_dim: the width of a query and a key.
        value_dim: the width of a value.

    Returns:
        False for TensorFlow, and where the widths differ, which JAX's kernel refuses.
    """
    return keras.backend.backend() in _BACKENDS and key_dim == value_dim


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    flash_attention: bool | None = None,
) -> Tensor:
    """Compute the output of `dot_product_attention` without ever holding its scores.

    The kernels disagree on rows in which nothing may be attended to (the mean of
    the values, or NaN). Here such rows attend to everything, so that every
    gradient is finite, and the result is replaced by zeros.

    Args:
        query: `(b, t, h, k)`.
        key: `(b, s, h, k)`, or fewer heads.
        value: `(b, s, h, k)`, likewise.
        mask: broadcasts to `(b, h, t, s)`; True where the query may attend to the key.
        flash_attention: see `keras.ops.dot_product_attention`; None lets the backend choose.

    Returns:
        `(b, t, h, k)`.
    """
    query, key, value = (as_floats(heads) for heads in (query, key, value))
    key, value = (repeat_heads(heads, query.shape[2]) for heads in (key, value))
    if mask is None:
        return ops.dot_product_attention(query, key, value, flash_attention=flash_attention)
    mask = as_boolean(mask, "mask")
    alive = ops.any(mask, axis=-1, keepdims=True)  # (b, h, t, 1)
    open_mask = ops.logical_or(mask, ops.logical_not(alive))
    full_mask = ops.broadcast_to(open_mask, (*open_mask.shape[:2], query.shape[1], key.shape[1]))
    outputs = ops.dot_product_attention(query, key, value, mask=full_mask, flash_attention=flash_attention)
    return ops.where(ops.transpose(alive, (0, 2, 1, 3)), outputs, ops.zeros_like(outputs))
