"""Attention masks: creation, checks and combination.

In every mask True (1) means that a position may be attended to.
"""

import functools
from numbers import Integral
from typing import NamedTuple

import keras
from keras import ops

from keras_transformer._arguments import (
    as_boolean,
    as_position,
    check_kind,
    known_sizes,
    known_values,
    warn_user,
)
from keras_transformer.types import Shape, Tensor


def padding_mask(token_ids: Tensor, pad_id: int = 0) -> Tensor:
    """Return the padding mask of token ids.

    Args:
        token_ids: Integers `(b, s)`.
        pad_id: Id of the padding token.

    Returns:
        A boolean tensor `(b, s)`, True where there is a token.

    Raises:
        TypeError: If `pad_id` is not an integer.
    """
    check_kind(Integral, pad_id=pad_id)
    return ops.not_equal(token_ids, pad_id)


def causal_mask(query_length: Tensor | int, key_length: Tensor | int, *, start: Tensor | int = 0) -> Tensor:
    """Return a causal mask, in which each query attends only to its own and earlier positions.

    Args:
        query_length: Number of queries, `t`.
        key_length: Number of keys, `s`.
        start: Position of the first query. The first key has position 0.

    Returns:
        A boolean tensor `(t, s)`, True where the query may attend to the key.
    """
    # As in Keras and torch, the first query has the position of the first key, even with fewer queries than
    # keys.
    return _distance(query_length, key_length, start) >= 0


def _window_mask(query_length: Tensor | int, key_length: Tensor | int, window: int) -> Tensor:
    """Return `(t, s)`, True where a key is fewer than `window` positions away, on either side."""
    return ops.abs(_distance(query_length, key_length, 0)) < window


def _distance(query_length: Tensor | int, key_length: Tensor | int, start: Tensor | int) -> Tensor:
    """Return query position minus key position, int32 `(t, s)`."""
    # (t,), (s,) -> (t, s)
    queries = ops.arange(query_length, dtype="int32") + as_position(start)
    return queries[:, None] - ops.arange(key_length, dtype="int32")[None, :]


def combine_masks(
    *,
    padding_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    causal_mask: Tensor | None = None,
    window_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    value_mask: Tensor | None = None,
    scores_shape: Shape = (None, None, None, None),
) -> Tensor | None:
    """Combine the masks of one attention: a key is visible where every mask allows it.

    Args:
        padding_mask: `(b, s)`; True where the key is a token.
        attention_mask: `(t, s)`, `(b, t, s)`, `(b, 1, t, s)` or `(b, h, t, s)`; True where the query may
            attend to the key. Axes of size 1 broadcast.
        causal_mask: `(t, s)`, as `causal_mask()` returns it.
        window_mask: `(t, s)`; True where the key is inside the query's window.
        key_mask: `(b, s)`, the Keras mask of the keys; `padding_mask` overrides it.
        value_mask: `(b, s)`, the Keras mask of the values; `padding_mask` overrides it.
        scores_shape: `(b, h, t, s)` to check the masks against, None for unknown sizes.

    Returns:
        A boolean tensor that broadcasts to `(b, h, t, s)`, or None if no mask is given.

    Raises:
        TypeError: If a mask holds neither booleans nor numbers.
        ValueError: If a mask has the wrong rank or size, or holds other numbers than 0 and 1.
    """
    # An explicit mask overrides the Keras masks.
    keys = {"padding_mask": padding_mask}
    if padding_mask is None:
        keys = {"value_mask": value_mask, "key_mask": key_mask}
    pairs = {"causal_mask": causal_mask, "window_mask": window_mask}
    masks = [
        *(_expand_key_mask(mask, name, scores_shape) for name, mask in keys.items() if mask is not None),
        *([] if attention_mask is None else [_expand_query_mask(attention_mask, scores_shape)]),
        # (t, s) -> (1, 1, t, s)
        *(as_boolean(mask, name)[None, None, :, :] for name, mask in pairs.items() if mask is not None),
    ]
    # None without masks, so that attention skips the mask operations.
    return functools.reduce(ops.logical_and, masks) if masks else None


def _expand_key_mask(mask: Tensor, name: str, scores_shape: Shape) -> Tensor:
    mask = as_boolean(mask, name)
    _check_key_mask(mask.shape, name, scores_shape)
    # (b, s) -> (b, 1, 1, s)
    return ops.expand_dims(mask, (1, 2))


def _check_key_mask(shape: Shape, name: str, scores_shape: Shape) -> None:
    """Raise ValueError unless a mask has the shape of the keys, `(b, s)`."""
    wanted = (scores_shape[0], scores_shape[3])
    # A mask (b, 1) would broadcast and show or hide all keys of an example together.
    one_key_for_all = len(shape) == 2 and shape[1] == 1 and known_sizes(wanted)[1] not in (None, 1)
    if one_key_for_all or not _fits(shape, wanted):
        raise ValueError(
            f"`{name}` must have the shape (b, s){_sizes(wanted)}. "
            f"Received: shape={tuple(shape)}. A mask over queries and keys is an `attention_mask`."
        )


def _expand_query_mask(mask: Tensor, scores_shape: Shape) -> Tensor:
    mask = as_boolean(mask, "attention_mask")
    _check_query_mask(mask.shape, scores_shape)
    rank = len(mask.shape)
    # (t, s) -> (1, 1, t, s); (b, t, s) -> (b, 1, t, s)
    return mask[None, None, :, :] if rank == 2 else mask[:, None, :, :] if rank == 3 else mask


def _check_query_mask(shape: Shape, scores_shape: Shape) -> None:
    """Raise ValueError if an `attention_mask` has a wrong shape."""
    batch, heads, *lengths = scores_shape
    wanted: dict[int, Shape] = {2: tuple(lengths), 3: (batch, *lengths), 4: (batch, heads, *lengths)}
    if len(shape) not in wanted or not _fits(shape, wanted[len(shape)]):
        raise ValueError(
            "`attention_mask` must have the shape (t, s), (b, t, s), (b, 1, t, s) or "
            f"(b, h, t, s){_sizes(scores_shape)}. Received: shape={tuple(shape)}. "
            "A mask over keys alone is a `padding_mask`."
        )


class _Masks(NamedTuple):
    """Masks of one attention call, as the caller passed them."""

    attention_mask: Tensor | None = None
    padding_mask: Tensor | None = None
    query_mask: Tensor | None = None
    value_mask: Tensor | None = None
    key_mask: Tensor | None = None


def _zero_non_finite(vectors: Tensor, seen: Tensor) -> Tensor:
    """Return vectors `(b, s, d)` with zeros for NaN and infinity where `seen` `(b, s)` is False."""
    # A NaN times an attention weight of 0 is NaN, in outputs and gradients. Finite numbers stay, so that
    # outputs at padding equal those of other libraries.
    is_kept = ops.logical_or(ops.expand_dims(seen, -1), ops.isfinite(vectors))
    return ops.where(is_kept, vectors, ops.zeros((), vectors.dtype))


def _hide_padding(vectors: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Return vectors `(b, s, d)` with NaN and infinity at padding replaced by zeros."""
    if padding_mask is None:
        return vectors
    return _zero_non_finite(vectors, _checked_padding_mask(padding_mask, vectors.shape))


def _checked_padding_mask(mask: Tensor, vectors: Shape) -> Tensor:
    """Return a padding mask as booleans; raise ValueError if it does not fit the vectors `(b, s, d)`."""
    mask = as_boolean(mask, "padding_mask")
    _check_key_mask(mask.shape, "padding_mask", (vectors[0], None, None, vectors[1]))
    return mask


def _warn_if_inverted(masks: _Masks) -> bool:
    """Warn if a mask seems inverted; return whether mask values were known, as in an eager call.

    A mask seems inverted if it is an `attention_mask` that leaves a query without keys, or a `padding_mask`
    without any True.
    """
    # Many tutorials use the opposite convention, True where a key is hidden. One example may be all padding.
    is_known = False
    for name, mask, axis in (
        ("attention_mask", masks.attention_mask, -1),
        ("padding_mask", masks.padding_mask, None),
    ):
        seen = None if mask is None else known_values(as_boolean(mask, name))
        if seen is None or not seen.size:
            continue
        is_known = True
        if not seen.any(axis=axis).all():
            warn_user(
                f"`{name}` hides all keys from a query. True (1) must mean that a query may attend to a key. "
                "Inputs that are all padding, such as zeros, have such a mask, too."
            )
    return is_known


def _nan_unless_masks(outputs: Tensor, *masks: Tensor | None) -> Tensor:
    """Return outputs, but NaN in a traced graph if a mask turns out to hold other numbers than 0 and 1."""
    # An eager call raises an error for them; here an additive mask would silently hide every key.
    for mask in masks:
        dtype = getattr(mask, "dtype", "bool")  # a list has none, and is known
        # The type first: the values of a mask on a device take time to read.
        if keras.backend.standardize_dtype(dtype) == "bool" or known_values(mask) is not None:
            continue
        is_mask = ops.all(ops.logical_or(ops.equal(mask, 0), ops.equal(mask, 1)))
        outputs = ops.where(is_mask, outputs, ops.cast(float("nan"), outputs.dtype))
    return outputs


def _mask_queries(
    queries: Tensor, mask: Tensor | None, query_mask: Tensor, has_scores: bool
) -> tuple[Tensor, Tensor | None]:
    """Make padding queries return what Keras returns: zeros if it computes scores, else the values' mean."""
    # (b, t) -> (b, t, 1, 1)
    query_mask = ops.expand_dims(as_boolean(query_mask, "query_mask"), (2, 3))
    rows = ops.transpose(query_mask, (0, 2, 1, 3))
    if has_scores:
        return queries, rows if mask is None else ops.logical_and(mask, rows)
    # A zero query that may attend to every key weights all keys equally, in every kernel.
    queries = ops.where(query_mask, queries, ops.zeros_like(queries))
    return queries, None if mask is None else ops.logical_or(mask, ops.logical_not(rows))


def _fits(shape: Shape, wanted: Shape) -> bool:
    """Return whether a mask has the wanted rank and, in each axis, the wanted size or 1."""
    shape, wanted = known_sizes(shape), known_sizes(wanted)
    return len(shape) == len(wanted) and all(
        size in (1, None, known) or known is None for size, known in zip(shape, wanted, strict=True)
    )


def _sizes(shape: Shape) -> str:
    """Return the sizes of a shape for an error message, empty if all are unknown."""
    sizes = known_sizes(shape)
    return "" if all(size is None for size in sizes) else f" = {sizes}"
