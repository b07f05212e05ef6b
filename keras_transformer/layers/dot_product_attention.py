"""Scaled dot-product attention, section 3.2.1 of the paper: the reference of every faster path."""

from collections.abc import Callable

from keras import ops

from keras_transformer._arguments import as_boolean, as_floats, known_sizes
from keras_transformer._backend.attention import masked_softmax
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
    r"""Compute `softmax(Q K^T / sqrt(k)) V` for every head (equation 1).

    Args:
        query: `(b, t, h, k)`.
        key: `(b, s, h, k)`, or fewer heads: each then serves a group of neighboring query heads
            (Ainslie et al. 2023; Shazeer 2019).
        value: `(b, s, h, k)`, as many heads as the key; its width may differ.
        mask: broadcasts to `(b, h, t, s)`; True where the query may attend to the key. None lets every query
            attend to every key.
        bias: broadcasts to `(b, h, t, s)`, added to the logits before the softmax.
        dropout: a function of the scores `(b, h, t, s)`, applied before they weight the values.
        training: whether a gradient follows, which TensorFlow then computes in fewer operations.

    Returns:
        The output `(b, t, h, k)`, and the scores `(b, h, t, s)` after the softmax and before dropout. A query
        that may attend to nothing gets zeros in both.

    Raises:
        TypeError: a mask that is not of booleans or numbers.
        ValueError: a mask of another size, or of other numbers than 0 and 1.
    """
    query, key, value = (as_floats(inputs) for inputs in (query, key, value))
    key, value = (_repeat_heads(heads, query.shape[2]) for heads in (key, value))
    # The queries are scaled, t * k numbers of a head, and not the logits, t * s of them.
    query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
    # (b, t, h, k), (b, s, h, k) -> (b, h, t, s), in float32 for the softmax, whatever the inputs are
    logits = ops.cast(ops.einsum("bthk,bshk->bhts", query, key), "float32")
    if bias is not None:
        logits = logits + ops.cast(bias, "float32")
    scores = masked_softmax(logits, _checked(mask, logits.shape), training=training)
    scores = ops.cast(scores, value.dtype)
    weights = scores if dropout is None else dropout(scores)
    # (b, h, t, s), (b, s, h, k) -> (b, t, h, k)
    return ops.einsum("bhts,bshk->bthk", weights, value), scores


def _attend_without_scores(
    kernel: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    flash_attention: bool | None,
) -> Tensor:
    """Compute the output of `dot_product_attention` with the backend's kernel."""
    key, value = (_repeat_heads(heads, query.shape[2]) for heads in (key, value))
    return kernel(query, key, value, mask, flash_attention=flash_attention)


def _repeat_heads(heads: Tensor, num_heads: int) -> Tensor:
    # (b, s, g, k) -> (b, s, h, k): a head of keys or values is repeated for the group that shares it
    num_groups = heads.shape[2]
    return heads if num_groups == num_heads else ops.repeat(heads, num_heads // num_groups, axis=2)


def _checked(mask: Tensor | None, shape: Shape) -> Tensor | None:
    if mask is None:
        return None
    mask = as_boolean(mask, "mask")
    mask_shape, shape = known_sizes(mask.shape), known_sizes(shape)
    # From the last axis on, as shapes broadcast. A larger mask would widen the scores without an error.
    pairs = zip(reversed(mask_shape), reversed(shape), strict=False)
    fits = all(size in (1, None, wanted) or wanted is None for size, wanted in pairs)
    if len(mask_shape) > len(shape) or not fits:
        raise ValueError(
            "The mask must broadcast to the scores (b, h, t, s). "
            f"Received: mask of shape {mask_shape}, scores of shape {shape}."
        )
    return mask
