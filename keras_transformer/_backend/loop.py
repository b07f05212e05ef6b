"""Decoding loops: weights that are read once, and buffers written position by position."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_transformer._backend.compiler import _in_compiler
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.types import Tensor


def snapshot_weights(*layers: keras.layers.Layer | None) -> list[tuple[keras.Variable, Tensor]]:
    """Return weights and their current values, on torch without a gradient, for a `keras.StatelessScope`."""
    return [(weight, _snapshot(weight)) for layer in layers if layer is not None for weight in layer.weights]


def _snapshot(weight: keras.Variable) -> Tensor:
    backend, value = keras.backend.backend(), weight.value
    # Otherwise TensorFlow reads a variable in every iteration of a loop, because it might have changed.
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.identity(value)  # a conversion to a tensor would still read the variable
    # torch assigns in place, so a fixed value must be a copy.
    return value.detach().clone() if backend == "torch" else value


class PositionBuffer:
    """Operations on a buffer of keys or values `(b, h, T * n, k)`, written position by position."""

    @staticmethod
    def may_grow(batch_size: Tensor | int) -> bool:
        """Return whether a loop can enlarge buffers: in a TensorFlow graph with unknown sizes."""
        return not isinstance(batch_size, int) and not _in_compiler()

    @staticmethod
    def make(shape: Sequence[Tensor | int], dtype: str) -> Tensor:
        """Return zeros; if a size is unknown, in memory that no other tensor shares."""
        if keras.backend.backend() != "tensorflow" or all(isinstance(size, int) for size in shape):
            return ops.zeros(tuple(shape), dtype)
        import tensorflow as tf

        # TensorFlow would merge two equal `zeros` of a graph into one buffer; it never merges `Empty`.
        return tf.raw_ops.Empty(shape=tf.stack(list(shape)), dtype=dtype, init=True)

    @staticmethod
    def slots(position: Tensor | int, buffer: Tensor, num_hypotheses: int) -> Tensor:
        """Return the slots that `write` writes, the same for all buffers of one size.

        Args:
            position: Position, `p`, an integer scalar below `T`.
            buffer: `(b, h, T * n, k)`.
            num_hypotheses: Number of hypotheses per source, `n`.
        """
        position = ops.cast(position, "int32")
        if _writes_slices():
            return position * num_hypotheses
        batch_size, num_heads, num_slots, _ = dynamic_shape(buffer)
        rows = ops.arange(batch_size * num_heads, dtype="int32") * num_slots + position * num_hypotheses
        hypotheses = ops.arange(num_hypotheses, dtype="int32")[:, None]
        return ops.reshape(ops.reshape(rows, (-1, 1, num_heads)) + hypotheses, (-1,))  # (b * n * h,)

    @staticmethod
    def write(buffer: Tensor, heads: Tensor, slots: Tensor, *, in_place: bool = False) -> Tensor:
        """Compute `buffer[:, :, p * n : (p + 1) * n] = transpose(heads, (0, 2, 1, 3))`.

        Args:
            buffer: `(b, h, T * n, k)`.
            heads: `(b, n, h, k)`, of position `p`.
            slots: Slots of the position, from `slots`.
            in_place: Whether the buffer may be overwritten in a TensorFlow graph. Any other reference to the
                old buffer then sees the change.

        Returns:
            The buffer including this position.
        """
        heads = ops.cast(heads, buffer.dtype)
        if _writes_slices():
            # (b, n, h, k) -> (b, h, n, k)
            return ops.slice_update(buffer, (0, 0, slots, 0), ops.transpose(heads, (0, 2, 1, 3)))
        import tensorflow as tf

        width = heads.shape[-1]
        matrix, rows = tf.reshape(buffer, (-1, width)), tf.reshape(heads, (-1, width))
        # TensorFlow's scatter copies the buffer. The compilers of the other backends detect by themselves
        # that it can be reused.
        if in_place:
            matrix = tf.raw_ops.InplaceUpdate(x=matrix, i=slots, v=rows)
        else:
            matrix = tf.tensor_scatter_nd_update(matrix, slots[:, None], rows)
        # The shape as one tensor: separate sizes would be several more operations in every step.
        written = tf.reshape(matrix, tf.shape(buffer))
        written.set_shape(buffer.shape)  # the known sizes; `ensure_shape` would add an operation
        return written


def _writes_slices() -> bool:
    """Return whether a slice can be written without copying the rest: not in TensorFlow without XLA."""
    return keras.backend.backend() != "tensorflow" or _in_compiler()
