"""Rows and largest numbers of tensors, in few operations."""

import keras
from keras import ops

from keras_transformer.types import Tensor


def take_rows(values: Tensor, indices: Tensor) -> Tensor:
    """Compute `take(values, indices, axis=0)` for indices that exist.

    `ops.take` on TensorFlow first looks for negative indices, several operations more in every step.

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
    """Compute `take_along_axis` over axis 1 for indices that exist, of entries of any shape.

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
    """Compute `argmax(values, axis=-1, keepdims=True)`; of equal numbers the first.

    `ops.argmax` on TensorFlow first tells -0.0 from 0.0 by the bits of a number: several operations more,
    which LiteRT does not have.

    Args:
        values: floats `(r, m)`.

    Returns:
        int32 `(r, 1)`.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.cast(ops.argmax(values, axis=-1, keepdims=True), "int32")
    import tensorflow as tf

    return tf.argmax(values, axis=-1, output_type=tf.int32)[:, None]


_LOWEST = -3e38  # below every score, even that of a token that is not allowed
_BLOCK = 64
_BLOCKS = range(32, 129)


def top_k(values: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """Compute `top_k(values, num)`, where of equal numbers those with the lower index come first.

    Over a vocabulary of 32,000 the operation of TensorFlow and XLA takes five times as long as this. The `m`
    largest numbers lie in the `m` blocks with the largest maxima, so that only these blocks are searched,
    and a maximum is fast.

    Args:
        values: float32 `(r, v)`, of a known width.
        num: the number of numbers, `m`, at most `v`.

    Returns:
        The numbers, largest first, and their int32 indices, both `(r, m)`.
    """
    width = int(values.shape[1])
    if width < 4 * _BLOCK * num:
        return _top_k(values, num)
    block = _block_size(width)
    if width % block:
        values = ops.pad(values, [[0, 0], [0, -width % block]], constant_values=_LOWEST)
    num_blocks = -(-width // block)
    _, blocks = _top_k(ops.max(ops.reshape(values, (-1, num_blocks, block)), axis=-1), num)
    # In their own order again, so that of equal numbers the first is found first.
    blocks = ops.sort(blocks, axis=-1)  # (r, m)
    offsets = ops.arange(ops.shape(values)[0], dtype="int32")[:, None] * num_blocks
    candidates = take_rows(ops.reshape(values, (-1, block)), blocks + offsets)  # (r, m, block)
    found, indices = _top_k(ops.reshape(candidates, (-1, num * block)), num)
    return found, take_each(blocks, indices // block) * block + indices % block


def _top_k(values: Tensor, num: int) -> tuple[Tensor, Tensor]:
    if keras.config.backend() == "torch":  # whose operation keeps no order of equal numbers
        indices = ops.argsort(ops.negative(values), axis=-1)[:, :num]
        return ops.take_along_axis(values, indices, axis=-1), ops.cast(indices, "int32")
    found, indices = ops.top_k(values, num)
    return found, ops.cast(indices, "int32")


def _block_size(width: int) -> int:
    """Divide a width without a rest where that is possible."""
    divisors = [size for size in _BLOCKS if width % size == 0]
    return min(divisors, key=lambda size: abs(size - _BLOCK), default=_BLOCK)
