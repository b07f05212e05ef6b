"""Scaled dot-product attention, section 3.2.1 of the paper; the reference for every faster implementation."""

from collections.abc import Callable

from keras import ops

from keras_transformer._arguments import as_boolean, as_floats, as_precise, known_sizes
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
    r"""Compute scaled dot-product attention, `softmax(Q K^T / sqrt(k)) V` (equation 1), for every head.

    Args:
        query: `(b, t, h, k)`.
        key: `(b, s, h, k)`. With fewer heads, each serves a group of neighboring query heads (Ainslie et al.
            2023; Shazeer 2019).
        value: `(b, s, h, any width)`, with as many heads as the key.
        mask: Broadcasts to `(b, h, t, s)`; True where the query may attend to the key. Defaults to all True.
        bias: Broadcasts to `(b, h, t, s)`; added to the logits before the softmax.
        dropout: Function applied to the scores `(b, h, t, s)` before they weight the values.
        training: Whether gradients will be computed. If True, TensorFlow computes them with fewer operations.

    Returns:
        The output `(b, t, h, width of the value)`, and the scores `(b, h, t, s)` after the softmax and before
        dropout. Both are zero for a query with no visible key.

    Raises:
        TypeError: If the mask holds neither booleans nor numbers.
        ValueError: If the mask does not broadcast to the scores, or holds other numbers than 0 and 1.
    """
    query, key, value = (as_floats(inputs) for inputs in (query, key, value))
    key, value = (_repeat_heads(heads, query.shape[2]) for heads in (key, value))
    # Scales the queries, t * k numbers per head, and not the logits, t * s numbers.
    query = query * query.shape[-1] ** -0.5
    # (b, t, h, k), (b, s, h, k) -> (b, h, t, s); the softmax is computed at least in float32
    logits = as_precise(ops.einsum("bthk,bshk->bhts", query, key))
    if bias is not None:
        logits = logits + ops.cast(bias, logits.dtype)
    scores = masked_softmax(logits, _checked_mask(mask, logits.shape), training=training)
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
    """Return the output of `dot_product_attention`, computed with the backend's kernel."""
    key, value = (_repeat_heads(heads, query.shape[2]) for heads in (key, value))
    return kernel(query, key, value, mask, flash_attention=flash_attention)


def _repeat_heads(heads: Tensor, num_heads: int) -> Tensor:
    # (b, s, g, k) -> (b, s, h, k): each key/value head is repeated for the query heads that share it
    num_groups = heads.shape[2]
    return heads if num_groups == num_heads else ops.repeat(heads, num_heads // num_groups, axis=2)


def _checked_mask(mask: Tensor | None, shape: Shape) -> Tensor | None:
    if mask is None:
        return None
    mask = as_boolean(mask, "mask")
    mask_shape, shape = known_sizes(mask.shape), known_sizes(shape)
    # Compared from the last axis, as in broadcasting. A larger mask would silently enlarge the scores.
    pairs = zip(reversed(mask_shape), reversed(shape), strict=False)
    fits = all(size in (1, None, wanted) or wanted is None for size, wanted in pairs)
    if len(mask_shape) > len(shape) or not fits:
        raise ValueError(
            "The mask must broadcast to the scores (b, h, t, s). "
            f"Received: mask of shape {mask_shape}, scores of shape {shape}."
        )
    return mask
