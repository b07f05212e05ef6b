"""Masks: how they are made, and the only place where they are combined.

One rule holds everywhere: True (1) means *may be attended to*.
"""

from keras import KerasTensor, ops

from keras_transformer.types import Tensor


def padding_mask(token_ids: Tensor, pad_id: int = 0) -> Tensor:
    """Say which positions hold a token and which only padding.

    Args:
        token_ids: integers `(b, s)`.
        pad_id: the id that stands for padding.

    Returns:
        A boolean tensor `(b, s)`, True where there is a token.
    """
    return ops.not_equal(token_ids, pad_id)


def causal_mask(query_length: Tensor | int, key_length: Tensor | int) -> Tensor:
    """Let each query see the keys up to its own position, none of the future.

    With fewer queries than keys the queries are the last positions, as they
    are when earlier keys come from a cache.

    Args:
        query_length: the number of queries, `t`.
        key_length: the number of keys, `s`.

    Returns:
        A boolean tensor `(t, s)`, True where the query may attend to the key.
    """
    query_positions = ops.arange(query_length) + (key_length - query_length)  # (t,)
    key_positions = ops.arange(key_length)  # (s,)
    return ops.expand_dims(query_positions, 1) >= ops.expand_dims(key_positions, 0)


def combine_masks(
    *,
    padding_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    causal_mask: Tensor | None = None,
) -> Tensor | None:
    """Combine all masks of one attention into one that fits the scores.

    A key may be attended to where every mask that is given allows it.

    Args:
        padding_mask: `(b, s)`, True where the key is a token.
        attention_mask: `(t, s)`, `(b, t, s)`, `(b, 1, t, s)` or
            `(b, h, t, s)`; a size of 1 stands for every index of that axis.
        causal_mask: `(t, s)`, as `causal_mask()` makes it.

    Returns:
        A boolean tensor that broadcasts to `(b, h, t, s)`, or None where no
        mask was given: then everything may be attended to.

    Raises:
        ValueError: a mask of another rank.
    """
    masks = [
        None if padding_mask is None else _padding_to_scores(padding_mask),
        None if attention_mask is None else _attention_to_scores(attention_mask),
        None if causal_mask is None else _attention_to_scores(causal_mask),
    ]
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def intersect_masks(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Allow what both masks of the same positions allow.

    Args:
        first: `(b, s)`, or None where everything is allowed.
        second: `(b, s)`, likewise.

    Returns:
        A boolean tensor `(b, s)`, or None where both are None.
    """
    if first is None or second is None or first is second:
        return second if first is None else first
    return ops.logical_and(first, second)


def _padding_to_scores(mask: Tensor) -> Tensor:
    """Reshape `(b, s)` to `(b, 1, 1, s)`."""
    mask = _as_boolean(mask)
    if len(mask.shape) != 2:
        raise ValueError(
            "`padding_mask` must have the shape (b, s). "
            f"Received: shape={tuple(mask.shape)}. A mask over queries and keys "
            "is an `attention_mask`."
        )
    return mask[:, None, None, :]


def _attention_to_scores(mask: Tensor) -> Tensor:
    """Reshape `(t, s)`, `(b, t, s)` or `(b, h, t, s)` to rank 4."""
    mask = _as_boolean(mask)
    rank = len(mask.shape)
    if rank == 2:
        return mask[None, None, :, :]
    if rank == 3:
        return mask[:, None, :, :]
    if rank == 4:
        return mask
    raise ValueError(
        "`attention_mask` must have the shape (t, s), (b, t, s), (b, 1, t, s) or "
        f"(b, h, t, s). Received: shape={tuple(mask.shape)}."
    )


def _as_boolean(mask: Tensor) -> Tensor:
    """Read a mask of 0 and 1 in any dtype as booleans."""
    if not isinstance(mask, KerasTensor):
        mask = ops.convert_to_tensor(mask)
    return ops.cast(mask, "bool")
