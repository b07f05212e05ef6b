"""Memory that decoding writes row by row, in place where that is safe."""

import contextlib
import contextvars
from collections.abc import Iterator, Sequence

import keras
from keras import ops

from keras_transformer.types import Tensor

_IN_PLACE = contextvars.ContextVar("in_place", default=False)


@contextlib.contextmanager
def written_in_place() -> Iterator[None]:
    """Let `write_rows` overwrite its buffer while a graph is traced.

    TensorFlow's scatter copies the whole buffer, its `InplaceUpdate` does not, but then whoever
    still holds the old buffer sees the new rows. So only a loop that owns its buffers asks for it.
    On the other backends nothing changes: their compilers see for themselves what may be reused.

    Yields:
        Nothing.
    """
    token = _IN_PLACE.set(keras.backend.backend() == "tensorflow")
    try:
        yield
    finally:
        _IN_PLACE.reset(token)


def make_buffer(shape: Sequence[Tensor | int], dtype: str) -> Tensor:
    """Make zeros that share their memory with nothing else.

    Args:
        shape: the sizes.
        dtype: of the numbers.

    Returns:
        A tensor of zeros.
    """
    if not _IN_PLACE.get():
        return ops.zeros(tuple(shape), dtype)
    import tensorflow as tf

    # Two equal `zeros` of one graph would become one buffer; this operation is never merged.
    return tf.raw_ops.Empty(shape=tf.stack(list(shape)), dtype=dtype, init=True)


def write_rows(buffer: Tensor, indices: Tensor, rows: Tensor) -> Tensor:
    """Write rows of a matrix, on TensorFlow.

    Args:
        buffer: of any shape; inside `written_in_place` it must not be read any more.
        indices: integers `(r,)`, where to write: rows of the matrix `(m, k)` that the buffer would be.
        rows: `(r, k)`.

    Returns:
        The buffer with these rows.
    """
    import tensorflow as tf

    matrix = tf.reshape(buffer, (-1, rows.shape[-1]))
    if _IN_PLACE.get():
        matrix = tf.raw_ops.InplaceUpdate(x=matrix, i=indices, v=rows)
    else:
        matrix = tf.tensor_scatter_nd_update(matrix, indices[:, None], rows)
    # The shape as one tensor: sizes one by one are several operations more in every step.
    return tf.ensure_shape(tf.reshape(matrix, tf.shape(buffer)), buffer.shape)
