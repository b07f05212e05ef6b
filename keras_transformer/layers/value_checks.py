"""Checks of values, as far as they are known: a graph knows them only when it runs."""

from numbers import Integral
from typing import Any

import keras
import numpy as np
from keras import KerasTensor, ops

from keras_transformer.layers.validation import known_sizes
from keras_transformer.types import Tensor


def known_values(tensor: Tensor) -> Any:
    """Read the values of a tensor where they are known.

    Args:
        tensor: of any backend.

    Returns:
        A NumPy array, or None while a graph is traced.
    """
    if isinstance(tensor, KerasTensor):
        return None
    try:
        return ops.convert_to_numpy(tensor)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None  # each backend refuses in its own way to read what is only traced


def as_position(start: Tensor | int) -> Tensor | int:
    """Read the position of a first vector, of whatever integer type.

    Args:
        start: an integer, or a scalar tensor of integers.

    Returns:
        A Python integer where it is known to be one, else an int32 tensor.

    Raises:
        ValueError: a number below 0.
    """
    if not isinstance(start, Integral):
        return ops.cast(start, "int32")
    if start < 0:
        raise ValueError(f"`start` must be at least 0. Received: start={start}.")
    return int(start)


def check_sequence(inputs: Tensor, positions: Tensor | None) -> None:
    """Refuse inputs and positions of which another axis, or a broadcast one, would be taken for time.

    Args:
        inputs: `(b, t, d)`.
        positions: integers `(b, t)` or `(1, t)`, or None.

    Raises:
        ValueError: another rank, or positions of another size, where it is known.
    """
    if len(inputs.shape) != 3:
        raise ValueError(f"`inputs` must have the shape (b, t, d). Received: shape={tuple(inputs.shape)}.")
    if positions is None:
        return
    shape, wanted = known_sizes(positions.shape), known_sizes(inputs.shape[:2])
    fits = (
        len(shape) == 2
        and shape[1] in (None, wanted[1] or shape[1])
        and shape[0] in (None, 1, wanted[0] or shape[0])
    )
    if not fits:
        raise ValueError(f"`positions` must have the shape (b, t) = {wanted}. Received: shape={shape}.")


def check_known_positions(positions: Tensor, limit: int | None) -> None:
    """Refuse positions that are out of range, where their values are known.

    Args:
        positions: integers `(b, t)`.
        limit: the first position that is too large; None if it is not known.

    Raises:
        ValueError: a position below 0, or not below the limit.
    """
    values = known_values(positions)
    if values is None or not values.size:
        return
    lowest, highest = values.min(), values.max()
    if lowest < 0 or (limit is not None and highest >= limit):
        raise ValueError(
            f"`positions` must be at least 0 and below {limit}. Received: from {lowest} to {highest}."
        )


def as_token_ids(token_ids: Tensor) -> Tensor:
    """Read whole numbers as token ids: Keras hands over floats where it makes the inputs of a model itself.

    It does so to rebuild a subclassed model from a file, and for a `Sequential` without an `Input`.

    Args:
        token_ids: of any dtype and rank.

    Returns:
        The integers; what is float32 or float64 as integers, with -1, which no vocabulary has, for a
        fraction that is only known when a graph runs. Anything else as it is.

    Raises:
        TypeError: fractions.
    """
    dtype = keras.backend.standardize_dtype(token_ids.dtype)
    if dtype not in ("float32", "float64"):  # half precision does not know large ids
        return token_ids
    values = known_values(token_ids)
    if values is not None and (values != np.floor(values)).any():
        raise TypeError(f"`token_ids` must be integers. Received: fractions, dtype={dtype}.")
    ids = ops.cast(token_ids, "int32")
    return ops.where(ops.equal(ops.cast(ids, dtype), token_ids), ids, -1)


def check_token_ids(token_ids: Tensor, vocabulary_size: int, name: str = "token_ids") -> None:
    """Refuse token ids that a vocabulary does not have, where their values are known.

    Args:
        token_ids: `(b, t)`, or of another rank.
        vocabulary_size: the number of ids, `v`.
        name: of the argument, for the message.

    Raises:
        TypeError: ids that are not integers.
        ValueError: an id below 0, or not below `v`.
    """
    if not keras.backend.is_int_dtype(token_ids.dtype):
        dtype = keras.backend.standardize_dtype(token_ids.dtype)
        raise TypeError(f"`{name}` must be integers. Received: dtype={dtype}.")
    values = known_values(token_ids)
    if values is None:
        return
    wrong = np.argwhere((values < 0) | (values >= vocabulary_size))
    if len(wrong):
        place = tuple(int(index) for index in wrong[0])
        raise ValueError(
            f"`{name}` must be at least 0 and below vocabulary_size={vocabulary_size}. "
            f"Received: {values[place]} at {place}."
        )
