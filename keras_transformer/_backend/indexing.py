"""Tensor sizes, row lookup, row assignment and top-k, in few operations."""

from collections.abc import Callable

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer.types import Tensor

_LOWEST = -3e38  # below every score, even of a forbidden token
_BLOCK_SIZE = 64
_BLOCK_SIZES = range(32, 129)
_BLOCK_BYTES = 2**24


def dynamic_shape(x: Tensor) -> tuple[Tensor | int, ...]:
    """Return the sizes of a tensor, integers where they are known, as `ops.shape`."""
    known = tuple(x.shape)
    if None not in known or keras.backend.backend() != "tensorflow" or isinstance(x, keras.KerasTensor):
        return known
    import tensorflow as tf

    sizes = tf.unstack(tf.shape(x))  # `ops.shape` needs four operations per unknown size
    return tuple(sizes[axis] if size is None else size for axis, size in enumerate(known))


def gather(values: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Look up rows by valid indices, as TensorFlow's `gather`.

    Args:
        values: `(m, any)`; with `batch_dims=1`, `(b, m)` or `(b, m, any)`, where all sizes after the batch
            are known, or all but the last.
        indices: Integers of any shape, at least 0 and below `m`; with `batch_dims=1`, `(b, n)`.
        batch_dims: 0, or 1 for separate indices per row.

    Returns:
        The rows, of the shape of the indices followed by the shape of a row.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # `ops.take` handles negative indices, with several more operations in every step.
        return tf.gather(ops.convert_to_tensor(values), indices, batch_dims=batch_dims)
    if not batch_dims:
        return ops.take(values, indices, axis=0)
    batch_size, size, *rest = dynamic_shape(values)
    offsets = ops.arange(batch_size, dtype="int32")[:, None] * size
    # (b, m, any) -> (b * m, any)
    return gather(ops.reshape(values, (-1, *rest)), ops.cast(indices, "int32") + offsets)


def assign_rows(variable: keras.Variable, rows: Callable[[slice], npt.NDArray[np.float32]]) -> None:
    """Assign a large variable block by block, without a second copy in memory.

    Args:
        variable: A variable of shape `(n, m)`.
        rows: Function from a slice of `range(n)` to the values of these rows.
    """
    num_rows, width = variable.shape
    step = max(1, _BLOCK_BYTES // (4 * width))
    for first in range(0, num_rows, step):
        block = slice(first, min(first + step, num_rows))
        _write_rows(variable, block, ops.convert_to_tensor(rows(block), variable.dtype))


def _write_rows(variable: keras.Variable, block: slice, values: Tensor) -> None:
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # `variable[block].assign` reads the variable first, which makes the write copy it.
        tf.raw_ops.ResourceStridedSliceAssign(
            ref=variable.value.handle, begin=[block.start], end=[block.stop], strides=[1], value=values
        )
    elif keras.backend.backend() == "torch":
        variable.value.data[block] = values
    else:
        import jax

        # JAX arrays are immutable, but a donated array's memory may be reused for the result.
        write = jax.jit(jax.lax.dynamic_update_slice, donate_argnums=0)
        variable.assign(write(variable.value, values, (block.start, 0)))


def largest(values: Tensor, num: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the largest numbers and their indices; among equal numbers, lower indices come first.

    Args:
        values: float32 `(r, v)`.
        num: How many, `m`, at most `v`. Defaults to one, found without a sort.

    Returns:
        The numbers, largest first, and their int32 indices, both `(r, m)`.
    """
    if num is None:
        return ops.max(values, axis=-1, keepdims=True), _first_largest(values)
    # For a vocabulary of 32,000, top_k of TensorFlow and XLA takes five times as long as this. The `m`
    # largest numbers are in the `m` blocks with the largest maxima, so only these blocks are searched.
    width = values.shape[1]
    if width is None or width < 4 * _BLOCK_SIZE * num:
        return _top_k(values, num)
    divisors = [size for size in _BLOCK_SIZES if width % size == 0]
    block = min(divisors, key=lambda size: abs(size - _BLOCK_SIZE), default=_BLOCK_SIZE)
    if width % block:
        values = ops.pad(values, [[0, 0], [0, -width % block]], constant_values=_LOWEST)
    num_blocks = -(-width // block)
    _, blocks = _top_k(ops.max(ops.reshape(values, (-1, num_blocks, block)), axis=-1), num)
    # Sorted, so that among equal numbers the first is found first.
    blocks = ops.sort(blocks, axis=-1)  # (r, m)
    offsets = ops.arange(dynamic_shape(values)[0], dtype="int32")[:, None] * num_blocks
    candidates = gather(ops.reshape(values, (-1, block)), blocks + offsets)  # (r, m, block)
    found, indices = _top_k(ops.reshape(candidates, (-1, num * block)), num)
    return found, gather(blocks, indices // block, batch_dims=1) * block + indices % block


def _first_largest(values: Tensor) -> Tensor:
    if keras.backend.backend() != "tensorflow":
        return ops.cast(ops.argmax(values, axis=-1, keepdims=True), "int32")
    import tensorflow as tf

    # `ops.argmax` distinguishes -0.0 from 0.0 with several more operations, which LiteRT lacks.
    return tf.argmax(values, axis=-1, output_type=tf.int32)[:, None]


def _top_k(values: Tensor, num: int) -> tuple[Tensor, Tensor]:
    if keras.config.backend() == "torch":  # torch's top_k does not order equal numbers by index
        indices = ops.argsort(ops.negative(values), axis=-1)[:, :num]
        return ops.take_along_axis(values, indices, axis=-1), ops.cast(indices, "int32")
    found, indices = ops.top_k(values, num)
    return found, ops.cast(indices, "int32")
