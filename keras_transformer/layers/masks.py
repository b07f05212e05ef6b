"""Masks: how they are made, and the only place where they are combined.

One rule holds everywhere: True (1) means *may be attended to*.
"""

import keras
import numpy as np
from keras import KerasTensor, ops

from keras_transformer.layers.validation import known_sizes
from keras_transformer.layers.value_checks import as_position, known_values
from keras_transformer.types import Shape, Tensor


def padding_mask(token_ids: Tensor, pad_id: int = 0) -> Tensor:
    """Say which positions hold a token and which only padding.

    Args:
        token_ids: integers `(b, s)`.
        pad_id: the id that stands for padding.

    Returns:
        A boolean tensor `(b, s)`, True where there is a token.
    """
    return ops.not_equal(token_ids, pad_id)


def causal_mask(query_length: Tensor | int, key_length: Tensor | int, *, start: Tensor | int = 0) -> Tensor:
    """Let each query see the keys up to its own position, none of the future.

    Args:
        query_length: the number of queries, `t`.
        key_length: the number of keys, `s`.
        start: the position of the first query; that of the first key is 0.

    Returns:
        A boolean tensor `(t, s)`, True where the query may attend to the key.
    """
    return _distance(query_length, key_length, start) >= 0


def window_mask(
    query_length: Tensor | int, key_length: Tensor | int, window: int, *, start: Tensor | int = 0
) -> Tensor:
    """Let each query see the keys that are fewer than `window` positions away, on either side.

    Args:
        query_length: the number of queries, `t`.
        key_length: the number of keys, `s`.
        window: the first distance that is too far.
        start: the position of the first query; that of the first key is 0.

    Returns:
        A boolean tensor `(t, s)`, True where the query may attend to the key.
    """
    return ops.abs(_distance(query_length, key_length, start)) < window


def _distance(query_length: Tensor | int, key_length: Tensor | int, start: Tensor | int) -> Tensor:
    """Compute how far each key lies before each query, `(t, s)`."""
    query_positions = ops.arange(query_length, dtype="int32") + as_position(start)  # (t,)
    return query_positions[:, None] - ops.arange(key_length, dtype="int32")[None, :]


def combine_masks(
    *,
    padding_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    causal_mask: Tensor | None = None,
    window_mask: Tensor | None = None,
    scores_shape: Shape = (None, None, None, None),
) -> Tensor | None:
    """Combine all masks of one attention into one that fits the scores.

    A key may be attended to where every mask that is given allows it.

    Args:
        padding_mask: `(b, s)`, True where the key is a token.
        attention_mask: `(t, s)`, `(b, t, s)`, `(b, 1, t, s)` or
            `(b, h, t, s)`; a size of 1 stands for every index of that axis.
        causal_mask: `(t, s)`, as `causal_mask()` makes it.
        window_mask: `(t, s)`, as `window_mask()` makes it.
        scores_shape: `(b, h, t, s)`, as far as it is known.

    Returns:
        A boolean tensor that broadcasts to `(b, h, t, s)`, or None where no
        mask was given: then everything may be attended to.

    Raises:
        TypeError: a mask that is not of booleans or numbers.
        ValueError: a mask of another rank or size, or of other numbers than 0 and 1.
    """
    masks = [
        None if padding_mask is None else _padding_to_scores(padding_mask, scores_shape),
        None if attention_mask is None else _attention_to_scores(attention_mask, scores_shape),
        None if causal_mask is None else as_boolean(causal_mask, "causal_mask")[None, None, :, :],
        None if window_mask is None else as_boolean(window_mask, "window_mask")[None, None, :, :],
    ]
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def intersect_masks(**masks: Tensor | None) -> Tensor | None:
    """Allow what all masks of the same positions allow.

    Args:
        **masks: each `(b, s)`, or None where everything is allowed, by the caller's name for it.

    Returns:
        A boolean tensor `(b, s)`, or None where all are None.

    Raises:
        TypeError: a mask that is not of booleans or numbers.
        ValueError: a mask of other numbers than 0 and 1.
    """
    combined = None
    for name, mask in masks.items():
        if mask is not None:
            allowed = as_boolean(mask, name)
            combined = allowed if combined is None else ops.logical_and(combined, allowed)
    return combined


def as_boolean(mask: Tensor, name: str) -> Tensor:
    """Read a mask of 0 and 1 in any dtype as booleans.

    Args:
        mask: a tensor, an array or nested lists, of booleans or of the numbers 0 and 1.
        name: what the caller calls it.

    Returns:
        A boolean tensor of the same shape.

    Raises:
        TypeError: neither booleans nor numbers.
        ValueError: numbers that are neither 0 nor 1, such as those of a mask that is
            added to the scores. While a graph is traced they are not known; such a
            mask then allows nothing, and never the opposite of what it says.
    """
    if not isinstance(mask, KerasTensor):
        dtype = str(getattr(mask, "dtype", ""))
        if any(kind in dtype for kind in ("str", "<U", "object", "complex")):
            raise TypeError(f"`{name}` must hold booleans, or the numbers 0 and 1. Received: dtype={dtype}.")
        mask = ops.convert_to_tensor(mask)
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return mask
    _check_zero_or_one(mask, name)
    return mask > 0


def _check_zero_or_one(mask: Tensor, name: str) -> None:
    """Refuse a mask of the kind that is added to the scores: read as booleans it says the opposite."""
    values = known_values(mask)
    if values is None:
        return
    wrong = values[(values != 0) & (values != 1)]
    if np.size(wrong):
        raise ValueError(
            f"`{name}` must hold 1 where a key may be attended to, and 0 elsewhere. Received: {wrong[0]}."
        )


def _padding_to_scores(mask: Tensor, scores_shape: Shape) -> Tensor:
    """Reshape `(b, s)` to `(b, 1, 1, s)`."""
    mask = as_boolean(mask, "padding_mask")
    wanted = (scores_shape[0], scores_shape[3])
    one_key_for_all = len(mask.shape) == 2 and mask.shape[1] == 1 and known_sizes(wanted)[1] not in (None, 1)
    if one_key_for_all or not _fits(mask.shape, wanted):
        raise ValueError(
            f"`padding_mask` must have the shape (b, s){_sizes(wanted)}. "
            f"Received: shape={tuple(mask.shape)}. A mask over queries and keys is an `attention_mask`."
        )
    return mask[:, None, None, :]


def _attention_to_scores(mask: Tensor, scores_shape: Shape) -> Tensor:
    """Reshape `(t, s)`, `(b, t, s)` or `(b, h, t, s)` to rank 4."""
    mask = as_boolean(mask, "attention_mask")
    batch, heads, *lengths = scores_shape
    wanted: dict[int, Shape] = {
        2: tuple(lengths),
        3: (batch, *lengths),
        4: (batch, heads, *lengths),
    }
    rank = len(mask.shape)
    if rank not in wanted or not _fits(mask.shape, wanted[rank]):
        raise ValueError(
            "`attention_mask` must have the shape (t, s), (b, t, s), (b, 1, t, s) or "
            f"(b, h, t, s){_sizes(scores_shape)}. Received: shape={tuple(mask.shape)}. "
            "A mask over keys alone is a `padding_mask`."
        )
    return mask[None, None, :, :] if rank == 2 else mask[:, None, :, :] if rank == 3 else mask


def _fits(shape: Shape, wanted: Shape) -> bool:
    """Say whether a mask has the wanted rank, and in each axis the wanted size or 1."""
    shape, wanted = known_sizes(shape), known_sizes(wanted)
    return len(shape) == len(wanted) and all(
        size in (1, None, known) or known is None for size, known in zip(shape, wanted, strict=True)
    )


def _sizes(shape: Shape) -> str:
    """Write the sizes of a shape behind its letters, if any is known."""
    sizes = known_sizes(shape)
    return "" if all(size is None for size in sizes) else f" = {sizes}"
