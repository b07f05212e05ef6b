"""The fewest and the most tokens of an answer, from the length of its source."""

from keras import ops

from keras_transformer.types import Tensor

# Products such as 1.1 * 10 lie a little beside the whole number that is meant.
ROUNDING = 1e-4


def shortest_lengths(source_lengths: Tensor, min_length: int, ratio: float) -> Tensor:
    """Compute the fewest tokens of each answer.

    Args:
        source_lengths: integers `(b,)`.
        min_length: the absolute bound.
        ratio: the relative one, which is rounded up.

    Returns:
        int32 `(b,)`: the larger one of the two.
    """
    relative = ops.ceil(ops.cast(source_lengths, "float32") * ratio - ROUNDING)
    return ops.maximum(ops.cast(relative, "int32"), min_length)


def longest_lengths(source_lengths: Tensor, max_length: int, ratio: float | None, offset: int) -> Tensor:
    """Compute the most tokens of each answer.

    Args:
        source_lengths: integers `(b,)`.
        max_length: the absolute bound, `T`.
        ratio: the relative one, which is rounded down; None for none.
        offset: added to the relative one.

    Returns:
        int32 `(b,)`: the smaller one of the two, and at least 1.
    """
    if ratio is None:
        return ops.full_like(source_lengths, max_length, dtype="int32")
    relative = ops.floor(ops.cast(source_lengths, "float32") * ratio + ROUNDING)
    return ops.clip(ops.cast(relative, "int32") + offset, 1, max_length)


def check_bounds(min_ratio: float, max_ratio: float | None, max_offset: int) -> None:
    """Refuse relative bounds that exclude each other or do nothing.

    Args:
        min_ratio: of the shortest length.
        max_ratio: of the longest length, or None.
        max_offset: of the longest length.

    Raises:
        ValueError: an offset to nothing, or the shortest length grows faster than the longest.
    """
    if max_ratio is None and max_offset:
        raise ValueError(
            "`max_length_offset` must come with a `max_length_ratio`. "
            f"Received: max_length_offset={max_offset}, max_length_ratio=None."
        )
    if max_ratio is not None and min_ratio > max_ratio:
        raise ValueError(
            "`min_length_ratio` must not be above `max_length_ratio`. "
            f"Received: min_length_ratio={min_ratio}, max_length_ratio={max_ratio}."
        )


def check_max_length(min_length: int, max_length: int) -> None:
    """Refuse a search that may not write as much as it must.

    Args:
        min_length: the fewest tokens.
        max_length: the search's maximum, `T`.

    Raises:
        ValueError: the maximum is the smaller one.
    """
    if max_length < min_length:
        raise ValueError(
            "`min_length` must not be above `max_length`. "
            f"Received: min_length={min_length}, max_length={max_length}."
        )
