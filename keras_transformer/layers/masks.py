"""Masks: how they are made, and the only place where they are combined.

One rule holds everywhere: True (1) means *may be attended to*.
"""

import functools
import warnings
from numbers import Integral
from typing import NamedTuple

from keras import ops

from keras_transformer._arguments import as_boolean, as_position, check_kind, known_sizes, known_values
from keras_transformer.types import Shape, Tensor


def padding_mask(token_ids: Tensor, pad_id: int = 0) -> Tensor:
    """Tell tokens from padding.

    Args:
        token_ids: integers `(b, s)`.
        pad_id: the id that stands for padding.

    Returns:
        A boolean tensor `(b, s)`, True where there is a token.

    Raises:
        TypeError: a `pad_id` that is not an integer.
    """
    check_kind(Integral, pad_id=pad_id)
    return ops.not_equal(token_ids, pad_id)


def causal_mask(query_length: Tensor | int, key_length: Tensor | int, *, start: Tensor | int = 0) -> Tensor:
    """Let each query attend to the keys up to its own position, and to none of the future.

    Args:
        query_length: the number of queries, `t`.
        key_length: the number of keys, `s`.
        start: the position of the first query; that of the first key is 0.

    Returns:
        A boolean tensor `(t, s)`, True where the query may attend to the key.
    """
    # The first query stands where the first key does, as in Keras and torch, also with fewer queries than
    # keys: aligned at the ends, the layers would give other numbers than those that they replace.
    return _distance(query_length, key_length, start) >= 0


def _window_mask(query_length: Tensor | int, key_length: Tensor | int, window: int) -> Tensor:
    """Return `(t, s)`, True where a key is fewer than `window` positions away, on either side."""
    return ops.abs(_distance(query_length, key_length, 0)) < window


def _distance(query_length: Tensor | int, key_length: Tensor | int, start: Tensor | int) -> Tensor:
    """Return how far each key lies before each query."""
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
    """Combine all masks of one attention into one: a key may be attended to where every mask allows it.

    Args:
        padding_mask: `(b, s)`, True where the key is a token.
        attention_mask: `(t, s)`, `(b, t, s)`, `(b, 1, t, s)` or `(b, h, t, s)`; a size of 1 stands for
            every index of that axis.
        causal_mask: `(t, s)`, as `causal_mask()` makes it.
        window_mask: `(t, s)`, True where the key is near the query.
        key_mask: `(b, s)`, the Keras mask of the keys, read only without a `padding_mask`.
        value_mask: `(b, s)`, the Keras mask of the values, likewise.
        scores_shape: `(b, h, t, s)`, as far as it is known.

    Returns:
        A boolean tensor that broadcasts to `(b, h, t, s)`, or None where no mask was given: then everything
        may be attended to.

    Raises:
        TypeError: a mask that is not of booleans or numbers.
        ValueError: a mask of another rank or size, or of other numbers than 0 and 1.
    """
    # What is given outranks what Keras has filled in.
    keys = {"padding_mask": padding_mask}
    if padding_mask is None:
        keys = {"value_mask": value_mask, "key_mask": key_mask}
    pairs = {"causal_mask": causal_mask, "window_mask": window_mask}
    masks = [
        *(_over_keys(mask, name, scores_shape) for name, mask in keys.items() if mask is not None),
        *([] if attention_mask is None else [_over_queries(attention_mask, scores_shape)]),
        # (t, s) -> (1, 1, t, s)
        *(as_boolean(mask, name)[None, None, :, :] for name, mask in pairs.items() if mask is not None),
    ]
    # None where nothing is masked: attention then leaves out the operations of a mask.
    return functools.reduce(ops.logical_and, masks) if masks else None


def _over_keys(mask: Tensor, name: str, scores_shape: Shape) -> Tensor:
    mask = as_boolean(mask, name)
    _check_key_mask(mask.shape, name, scores_shape)
    # (b, s) -> (b, 1, 1, s)
    return mask[:, None, None, :]


def _check_key_mask(shape: Shape, name: str, scores_shape: Shape) -> None:
    """Raise ValueError for a mask that is not over the keys `(b, s)`."""
    wanted = (scores_shape[0], scores_shape[3])
    # It would broadcast, and so show or hide all keys of an example together.
    one_key_for_all = len(shape) == 2 and shape[1] == 1 and known_sizes(wanted)[1] not in (None, 1)
    if one_key_for_all or not _fits(shape, wanted):
        raise ValueError(
            f"`{name}` must have the shape (b, s){_sizes(wanted)}. "
            f"Received: shape={tuple(shape)}. A mask over queries and keys is an `attention_mask`."
        )


def _over_queries(mask: Tensor, scores_shape: Shape) -> Tensor:
    mask = as_boolean(mask, "attention_mask")
    _check_query_mask(mask.shape, scores_shape)
    rank = len(mask.shape)
    # (t, s) -> (1, 1, t, s); (b, t, s) -> (b, 1, t, s)
    return mask[None, None, :, :] if rank == 2 else mask[:, None, :, :] if rank == 3 else mask


def _check_query_mask(shape: Shape, scores_shape: Shape) -> None:
    """Raise ValueError for a mask that is not over queries and keys."""
    batch, heads, *lengths = scores_shape
    wanted: dict[int, Shape] = {2: tuple(lengths), 3: (batch, *lengths), 4: (batch, heads, *lengths)}
    if len(shape) not in wanted or not _fits(shape, wanted[len(shape)]):
        raise ValueError(
            "`attention_mask` must have the shape (t, s), (b, t, s), (b, 1, t, s) or "
            f"(b, h, t, s){_sizes(scores_shape)}. Received: shape={tuple(shape)}. "
            "A mask over keys alone is a `padding_mask`."
        )


class _Masks(NamedTuple):
    """The masks of one call of attention, as they are given."""

    attention_mask: Tensor | None = None
    padding_mask: Tensor | None = None
    query_mask: Tensor | None = None
    value_mask: Tensor | None = None
    key_mask: Tensor | None = None


def _hide(vectors: Tensor, seen: Tensor) -> Tensor:
    """Return vectors `(b, s, d)` with zeros for NaN and infinity where `seen` `(b, s)` is False."""
    # A weight of 0 hides no NaN, neither from the outputs nor from the gradients of the weights. All other
    # numbers stay, so that outputs at padding are those of other libraries.
    is_kept = ops.logical_or(ops.expand_dims(seen, -1), ops.isfinite(vectors))
    return ops.where(is_kept, vectors, ops.zeros((), vectors.dtype))


def _hide_padding(vectors: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Return vectors `(b, s, d)` that are finite at padding, whatever stands there."""
    if padding_mask is None:
        return vectors
    mask = as_boolean(padding_mask, "padding_mask")
    _check_key_mask(mask.shape, "padding_mask", (vectors.shape[0], None, None, vectors.shape[1]))
    return _hide(vectors, mask)


def _warn_if_inverted(masks: _Masks) -> bool:
    """Warn of masks that leave queries no key; return whether they could be read, as in an eager call."""
    # The masks that many tutorials make are True where a key is hidden. A single example may be all padding.
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
            warnings.warn(
                f"A query to which `{name}` leaves no key gathers zeros. True (1) must stand where a key may "
                "be attended to.",
                stacklevel=2,
            )
    return is_known


def _mask_queries(
    queries: Tensor, mask: Tensor | None, query_mask: Tensor, has_scores: bool
) -> tuple[Tensor, Tensor | None]:
    """Let queries of padding gather what they do in Keras: zeros where it has scores, else the mean."""
    # (b, t) -> (b, t, 1, 1)
    query_mask = as_boolean(query_mask, "query_mask")[:, :, None, None]
    rows = ops.transpose(query_mask, (0, 2, 1, 3))
    if has_scores:
        return queries, rows if mask is None else ops.logical_and(mask, rows)
    # A query of zeros that may attend to every key weights all alike, in every kernel.
    queries = ops.where(query_mask, queries, ops.zeros_like(queries))
    return queries, None if mask is None else ops.logical_or(mask, ops.logical_not(rows))


def _fits(shape: Shape, wanted: Shape) -> bool:
    """Return whether a mask has the wanted rank, and in each axis the wanted size or 1."""
    shape, wanted = known_sizes(shape), known_sizes(wanted)
    return len(shape) == len(wanted) and all(
        size in (1, None, known) or known is None for size, known in zip(shape, wanted, strict=True)
    )


def _sizes(shape: Shape) -> str:
    """Return the sizes of a shape to follow its letters, if any is known."""
    sizes = known_sizes(shape)
    return "" if all(size is None for size in sizes) else f" = {sizes}"
