"""The backend's own attention kernel, for calls that need neither scores nor dropout."""

import keras
from keras import ops

from keras_transformer.layers.dot_product_attention import as_floats, repeat_heads
from keras_transformer.layers.masks import as_boolean
from keras_transformer.types import Tensor

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
