"""The largest of many numbers, without sorting most of them."""

import keras
from keras import ops

from keras_transformer.types import Tensor


def take_rows(values: Tensor, indices: Tensor) -> Tensor:
    """Take rows by numbers that are known to exist.

    `ops.take` first looks for negative indices, several operations more.

    Args:
        values: `(m, any)`.
        indices: integers of any shape, at least 0 and below `m`.

    Returns:
        The rows, of the shape of the indices and then that of a row.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.take(values, indices, axis=0)
    import tensorflow as tf

    return tf.gather(ops.convert_to_tensor(values), indices)


def take_each(values: Tensor, order: Tensor) -> Tensor:
    """Take entries of each row by their numbers in it.

    Args:
        values: `(b, m)` or `(b, m, any)`; all sizes after the batch are known, or the last one may be open.
        order: integers `(b, n)`, at least 0 and below `m`.

    Returns:
        `(b, n)` or `(b, n, any)`.
    """
    order = ops.cast(order, "int32")
    batch_size, size, *rest = ops.shape(values)
    offsets = ops.arange(batch_size, dtype="int32")[:, None] * size
    return take_rows(ops.reshape(values, (-1, *rest)), order + offsets)


def first_largest(values: Tensor) -> Tensor:
    """Find the largest number of each row.

    `ops.argmax` first tells -0.0 from 0.0, by the bits of a number: several operations more, which
    LiteRT does not have.

    Args:
        values: floats `(r, m)`.

    Returns:
        int32 `(r, 1)`: its index; the first of equal ones.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.cast(ops.argmax(values, axis=-1, keepdims=True), "int32")
    import tensorflow as tf

    return tf.argmax(values, axis=-1, output_type=tf.int32)[:, None]


_LOWEST = -3e38  # below every score, even that of what may not be
_BLOCK = 64
_BLOCKS = range(32, 129)


def top_k(values: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """Find the largest numbers of each row, of equal ones those with the lower index, on every backend.

    `ops.top_k` promises no order of equal numbers, and torch keeps none.

    Args:
        values: `(r, v)`.
        num: how many, `m`, at most `v`.

    Returns:
        The numbers, largest first, and their int32 indices, both `(r, m)`.
    """
    if keras.config.backend() == "torch":
        indices = ops.argsort(ops.negative(values), axis=-1)[:, :num]
        return ops.take_along_axis(values, indices, axis=-1), ops.cast(indices, "int32")
    found, indices = ops.top_k(values, num)
    return found, ops.cast(indices, "int32")


def largest(values: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """Find the largest numbers of each row.

    The same as `top_k`, which goes through a whole vocabulary several times slower than a maximum
    does. Whatever is among the `m` largest lies in one of the `m` blocks with the largest maxima,
    so only these are searched.

    Args:
        values: float32 `(r, v)`.
        num: how many, `m`, at most `v`.

    Returns:
        The numbers, largest first, and their int32 indices, both `(r, m)`; of equal numbers those
        with the lower index come first.
    """
    width = int(values.shape[1])
    if width < 4 * _BLOCK * num:
        return top_k(values, num)
    block = _block_size(width)
    if width % block:
        values = ops.pad(values, [[0, 0], [0, -width % block]], constant_values=_LOWEST)
    num_blocks = -(-width // block)
    _, blocks = top_k(ops.max(ops.reshape(values, (-1, num_blocks, block)), axis=-1), num)
    # In their own order again, so that of equal numbers the first is found first.
    blocks = ops.sort(blocks, axis=-1)  # (r, m)
    offsets = ops.arange(ops.shape(values)[0], dtype="int32")[:, None] * num_blocks
    candidates = take_rows(ops.reshape(values, (-1, block)), blocks + offsets)  # (r, m, block)
    found, places = top_k(ops.reshape(candidates, (-1, num * block)), num)
    return found, take_each(blocks, places // block) * block + places % block


def _block_size(width: int) -> int:
    """Divide a width without a rest where that is possible."""
    divisors = [size for size in _BLOCKS if width % size == 0]
    return min(divisors, key=lambda size: abs(size - _BLOCK), default=_BLOCK)
