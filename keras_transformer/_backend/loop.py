"""A decoding loop: weights that it reads once, products of few rows, and buffers written by position."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, TypeAlias

import keras
from keras import ops

from keras_transformer._backend.compiler import _in_compiler, _only_processors
from keras_transformer._backend.gather import shape_of
from keras_transformer.types import Tensor

_FEW = list(range(2, 33))
_Product: TypeAlias = Callable[[Tensor], Tensor]
_Flat: TypeAlias = Callable[[], Sequence[Tensor]]
_MakeProduct: TypeAlias = Callable[[tuple[keras.layers.Layer, ...], _Flat], _Product]


def weights_now(*layers: keras.layers.Layer | None) -> list[tuple[keras.Variable, Tensor]]:
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


class RowProduct:
    """`matmul(rows, matrix) + bias` of the rows of a step.

    Args:
        matrix: `(i, o)`.
        bias: `(o,)`, or None.
        turned: the matrix `(o, i)`, where it is there already.
    """

    # Of `made_by`, by thread: an argument would go through a search, its model and every layer of a decoder.
    _makers: ClassVar[dict[int, _MakeProduct]] = {}

    def __init__(self, matrix: Tensor, bias: Tensor | None, turned: Tensor | None = None) -> None:
        self._matrix, self._bias = matrix, bias
        self._negated_bias = None if bias is None else ops.negative(bias)
        if _in_compiler() and _only_processors():
            self._turned = ops.transpose(matrix) if turned is None else turned
            # XLA would leave a zero away, but not zero times a number, which might be none.
            self._column = 0 * self._turned[:, :1] if bias is None else bias[:, None]

    @classmethod
    def of(cls, layers: tuple[keras.layers.Layer, ...], flat: _Flat) -> _Product:
        """Make one of what `flat` computes from the weights of layers, or what an export has instead."""
        make = cls._makers.get(threading.get_ident())
        return cls(*flat()) if make is None else make(layers, flat)

    @staticmethod
    @contextlib.contextmanager
    def made_by(make: _MakeProduct) -> Iterator[None]:
        """Let `of` hand its arguments to an export, in this thread."""
        RowProduct._makers[threading.get_ident()] = make
        try:
            yield
        finally:
            del RowProduct._makers[threading.get_ident()]

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply rows `(r, i)`."""
        rows = ops.cast(rows, self._matrix.dtype)
        if not (_in_compiler() and _only_processors()):
            return self._product(rows)
        # XLA packs a matrix again in each product of several rows, faster where it is the left one: from 512
        # to 2,048 numbers 4 rows take 701 microseconds, not 1,308, and 32 rows 1,193, not 2,090. One needs no
        # packing, and for 128 the transposition costs more. XLA compiles only the branch that is taken.
        are_few = ops.any(ops.equal(shape_of(rows)[0], _FEW))
        return ops.cond(are_few, lambda: self._turned_product(rows), lambda: self._product(rows))

    def _turned_product(self, rows: Tensor) -> Tensor:
        # XLA would make the first product again of one that is transposed at once: a sum stands in between.
        return ops.transpose(ops.matmul(self._turned, ops.transpose(rows)) + self._column)

    def _product(self, rows: Tensor) -> Tensor:
        product = ops.matmul(rows, self._matrix)
        if self._bias is None or rows.shape[0] is not None:
            return product if self._bias is None else ops.add(product, self._bias)
        # In a graph for any number of rows TensorFlow makes one operation of a product and a sum, which takes
        # longer than both: for 4 rows, from 256 to 1,024 numbers, 85 microseconds against 52, for one 13
        # against 10. A difference it leaves alone, with which LiteRT's int8 answers wrongly.
        return ops.subtract(product, self._negated_bias)


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
