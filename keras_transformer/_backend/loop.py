"""A decoding loop: weights that it reads once, and buffers that it writes position by position."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_transformer._backend.compiler import _in_compiler
from keras_transformer._backend.gather import shape_of
from keras_transformer.types import Tensor


def snapshot_weights(*layers: keras.layers.Layer | None) -> list[tuple[keras.Variable, Tensor]]:
    """Return weights and their values now, without a gradient on torch, for a `keras.StatelessScope`."""
    return [(weight, _now(weight)) for layer in layers if layer is not None for weight in layer.weights]


def _now(weight: keras.Variable) -> Tensor:
    backend, value = keras.backend.backend(), weight.value
    # TensorFlow otherwise reads a variable again in each round of a loop, since another operation might have
    # changed it.
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.identity(value)  # what is no more than converted is still a variable
    # torch assigns in place, so a value that is to stay is a copy.
    return value.detach().clone() if backend == "torch" else value


class PositionBuffer:
    """Keys or values `(b, h, T * n, k)` of `n` hypotheses, a tensor that is written position by position."""

    @staticmethod
    def may_grow(batch_size: Tensor | int) -> bool:
        """Return whether a loop may make larger ones: in a graph of TensorFlow, where no size is known."""
        return not isinstance(batch_size, int) and not _in_compiler()

    @staticmethod
    def make(shape: Sequence[Tensor | int], dtype: str) -> Tensor:
        """Return zeros that share their memory with nothing else, where their size is not known."""
        if keras.backend.backend() != "tensorflow" or all(isinstance(size, int) for size in shape):
            return ops.zeros(tuple(shape), dtype)
        import tensorflow as tf

        # Two equal `zeros` of one graph would become one buffer; this operation is never merged.
        return tf.raw_ops.Empty(shape=tf.stack(list(shape)), dtype=dtype, init=True)

    @staticmethod
    def slots(position: Tensor | int, buffer: Tensor, num_hypotheses: int) -> Tensor:
        """Return where `write` writes; the same for all buffers of one size.

        Args:
            position: an integer scalar, `p`, below `T`.
            buffer: `(b, h, T * n, k)`.
            num_hypotheses: `n`.
        """
        position = ops.cast(position, "int32")
        if _writes_slices():
            return position * num_hypotheses
        batch_size, num_heads, num_slots, _ = shape_of(buffer)
        rows = ops.arange(batch_size * num_heads, dtype="int32") * num_slots + position * num_hypotheses
        hypotheses = ops.arange(num_hypotheses, dtype="int32")[:, None]
        return ops.reshape(ops.reshape(rows, (-1, 1, num_heads)) + hypotheses, (-1,))  # (b * n * h,)

    @staticmethod
    def write(buffer: Tensor, heads: Tensor, slots: Tensor, *, in_place: bool = False) -> Tensor:
        """Compute `buffer[:, :, p * n : (p + 1) * n] = transpose(heads, (0, 2, 1, 3))`.

        Args:
            buffer: `(b, h, T * n, k)`.
            heads: `(b, n, h, k)`, of position `p`.
            slots: where, from `slots`.
            in_place: whether the buffer may be overwritten in a graph of TensorFlow. Whoever still holds the
                old buffer then sees the new position: only the owner of a loop asks for it.

        Returns:
            The buffer with this position.
        """
        heads = ops.cast(heads, buffer.dtype)
        if _writes_slices():
            # (b, n, h, k) -> (b, h, n, k)
            return ops.slice_update(buffer, (0, 0, slots, 0), ops.transpose(heads, (0, 2, 1, 3)))
        import tensorflow as tf

        width = heads.shape[-1]
        matrix, rows = tf.reshape(buffer, (-1, width)), tf.reshape(heads, (-1, width))
        # TensorFlow's scatter copies all of the buffer. The compilers of the other backends see for
        # themselves what may be reused.
        if in_place:
            matrix = tf.raw_ops.InplaceUpdate(x=matrix, i=slots, v=rows)
        else:
            matrix = tf.tensor_scatter_nd_update(matrix, slots[:, None], rows)
        # The shape as one tensor: sizes one by one are several operations more in every step.
        written = tf.reshape(matrix, tf.shape(buffer))
        written.set_shape(buffer.shape)  # what is known of it; `ensure_shape` would be one operation more
        return written


def _writes_slices() -> bool:
    """Return whether a slice is written without a copy of the rest: not in a graph of TensorFlow itself."""
    return keras.backend.backend() != "tensorflow" or _in_compiler()
