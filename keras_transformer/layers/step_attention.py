"""Attention of the one position that a step of decoding computes."""

import numpy as np
from keras import ops

from keras_transformer.layers.products import batched_product
from keras_transformer.types import Tensor

# Added to a logit that must not count: large enough to absorb it, small enough to stay finite.
_HIDDEN = -1e30


def hide_unless(mask: Tensor) -> Tensor:
    """Turn a mask into what is added to logits.

    Args:
        mask: boolean, True where a key may be attended to.

    Returns:
        A float32 tensor of the same shape: 0 where it may, and a number that absorbs
        every logit where it may not.
    """
    return ops.where(mask, np.float32(0), np.float32(_HIDDEN))


def step_attention(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute what `dot_product_attention` computes, for one position of `n` hypotheses.

    The hypotheses of a source are the rows of one product of matrices. A query that may
    attend to nothing weights everything alike; the caller leaves only zeros there.

    Args:
        query: `(b, h, n, k)`.
        keys: `(b, g, m, k)`; each of the `g` heads serves `h / g` heads of the query.
        values: `(b, g, m, k)`, of any width.
        bias: broadcasts to `(b, h, n, m)`, added to the logits; None for nothing.

    Returns:
        The output `(b, h, n, k)`, and the weights `(b, h, n, m)`.
    """
    num_heads, beam_size, width = query.shape[1:]
    num_groups = keys.shape[1]
    rows = num_heads // num_groups * beam_size
    query = query * ops.cast(width**-0.5, query.dtype)
    if num_groups != num_heads:
        query = ops.reshape(query, (-1, num_groups, rows, width))
    logits = ops.cast(batched_product(query, keys, transposed=True), "float32")
    if num_groups != num_heads:
        logits = ops.reshape(logits, (-1, num_heads, beam_size, ops.shape(keys)[2]))
    logits = logits if bias is None else logits + bias
    # Not `softmax`: TensorFlow gives that to oneDNN, which needs ten times as long for so few numbers.
    weights = ops.exp(ops.log_softmax(logits, axis=-1))
    grouped = ops.cast(weights, values.dtype)
    if num_groups != num_heads:
        grouped = ops.reshape(grouped, (-1, num_groups, rows, ops.shape(keys)[2]))
    outputs = batched_product(grouped, values)
    if num_groups != num_heads:
        outputs = ops.reshape(outputs, (-1, num_heads, beam_size, values.shape[-1]))
    return outputs, weights
