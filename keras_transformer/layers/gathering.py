"""Rows of tensors by their numbers."""

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
