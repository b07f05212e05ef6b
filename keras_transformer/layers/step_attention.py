"""Attention of the one position that a step of decoding computes."""

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
    return ops.where(mask, 0.0, _HIDDEN)


def step_attention(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, beam_size: int
) -> tuple[Tensor, Tensor]:
    """Compute what `dot_product_attention` computes, for one position of `n` hypotheses.

    The hypotheses of a source are the rows of one product of matrices. A query that may
    attend to nothing weights everything alike; the caller leaves only zeros there.

    Args:
        query: `(b * n, 1, h, k)`.
        keys: `(b, g, m, k)`; each of the `g` heads serves `h / g` heads of the query.
        values: `(b, g, m, k)`, of any width.
        bias: broadcasts to `(b, h, n, m)`, added to the logits; None for nothing.
        beam_size: hypotheses for each source, `n`.

    Returns:
        The output `(b * n, 1, h, k)`, and the weights `(b, h, n, m)`.
    """
    num_heads, width = query.shape[2:]
    num_groups = keys.shape[1]
    rows = num_heads // num_groups * beam_size
    query = ops.reshape(query * ops.cast(width**-0.5, query.dtype), (-1, beam_size, num_heads, width))
    query = ops.reshape(_swap(query, beam_size), (-1, num_groups, rows, width))
    logits = ops.cast(batched_product(query, keys, transposed=True), "float32")
    if num_groups != num_heads:
        logits = ops.reshape(logits, (-1, num_heads, beam_size, ops.shape(keys)[2]))
    logits = logits if bias is None else logits + bias
    # Not `softmax`: TensorFlow gives that to oneDNN, which needs ten times as long for so few numbers.
    weights = ops.exp(ops.log_softmax(logits, axis=-1))
    grouped = ops.cast(weights, values.dtype)
    if num_groups != num_heads:
        grouped = ops.reshape(grouped, (-1, num_groups, rows, ops.shape(keys)[2]))
    outputs = ops.reshape(batched_product(grouped, values), (-1, num_heads, beam_size, values.shape[-1]))
    return ops.reshape(_swap(outputs, beam_size), (-1, 1, num_heads, values.shape[-1])), weights


def _swap(heads: Tensor, beam_size: int) -> Tensor:
    """Exchange heads and hypotheses; with one hypothesis the shape alone says it."""
    return heads if beam_size == 1 else ops.transpose(heads, (0, 2, 1, 3))
