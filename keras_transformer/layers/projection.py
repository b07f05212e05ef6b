"""Projections of inputs to heads and back as products of two matrices."""

import math
from collections.abc import Callable

import keras
from keras import ops

from keras_transformer._backend.gather import shape_of
from keras_transformer._backend.loop import weights_now
from keras_transformer.types import Tensor


def _clone(initializer: Tensor) -> Tensor:
    """Return an initializer of the same kind that draws other numbers."""
    # A Keras initializer draws the same numbers at every call: queries, keys and values would start alike.
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


@keras.saving.register_keras_serializable(package="keras_transformer")
class _Projection(keras.layers.EinsumDense):
    """Keras's linear map, `"btd,dhk->bthk"` or the like, as a product of two matrices.

    So Keras's LoRA, quantization, dtype policies and files of weights reach every kernel of attention.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        # One product of matrices: einsum's batched products, and the sums that its bias leaves in the
        # gradient, take twice as long on a CPU. The last axes of the inputs are the first ones of the kernel.
        matrix, bias = self.flat()
        sizes = self.partial_output_shape[1:]
        leading = shape_of(inputs)[: len(inputs.shape) - len(self.kernel.shape) + len(sizes)]
        outputs = ops.matmul(ops.reshape(inputs, (-1, matrix.shape[0])), matrix)
        outputs = outputs if bias is None else ops.add(outputs, bias)
        return ops.reshape(outputs, (*leading, *sizes))

    def quantize(self, mode: str, type_check: bool = True, **kwargs: object) -> None:
        """Quantize the kernel; Keras calls this, and refuses a subclass otherwise."""
        super().quantize(mode, type_check=False, **kwargs)

    def flat(self) -> tuple[Tensor, Tensor | None]:
        """Return the kernel as a matrix `(i, o)`, whose rows are its first axes, and the bias as `(o,)`."""
        matrix = _matrix_of(self, len(self.partial_output_shape) - 1)
        return matrix, None if self.bias is None else ops.reshape(ops.cast(self.bias, matrix.dtype), (-1,))


class _Linear:
    """The linear maps of one input as one matrix and one bias, made before a loop."""

    def __init__(self, *layers: keras.layers.Layer) -> None:
        with keras.StatelessScope(weights_now(*layers)):
            flat = (
                layer.flat() if hasattr(layer, "flat") else (_matrix_of(layer), layer.bias)
                for layer in layers
            )
            matrices, biases = zip(*flat, strict=True)
            self._widths = [matrix.shape[1] for matrix in matrices]
            self._matrix, self._bias = ops.concatenate(matrices, axis=-1), None
            if biases[0] is not None:
                self._bias = ops.cast(ops.concatenate(biases, axis=-1), self._matrix.dtype)

    def __call__(self, rows: Tensor) -> Tensor:
        """Map rows `(r, i)`, and return what the layers make of them side by side."""
        product = ops.matmul(ops.cast(rows, self._matrix.dtype), self._matrix)
        return product if self._bias is None else ops.add(product, self._bias)

    def parts(self, rows: Tensor) -> list[Tensor]:
        """Map rows, and return what each layer makes of them."""
        ends = [sum(self._widths[:number]) for number in range(1, len(self._widths))]
        return ops.split(self(rows), ends, axis=-1) if ends else [self(rows)]


def _matrix_of(layer: keras.layers.Layer, num_outputs: int = 1) -> Tensor:
    """Return the kernel of a layer, whose last axes are outputs, as a matrix `(i, o)` of floats."""
    kernel = layer.kernel
    size = math.prod(kernel.shape[len(kernel.shape) - num_outputs :])
    matrix = ops.reshape(ops.cast(kernel, layer.compute_dtype), (-1, size))
    mode = layer.quantization_mode
    if mode == "int8":
        matrix = matrix / ops.reshape(ops.cast(layer.kernel_scale, matrix.dtype), (1, size))
    elif mode not in (None, "float8"):  # whose kernels are packed
        raise ValueError(f"A kernel must be of floats or int8. Received: quantization mode {mode!r}.")
    return matrix


def _as_matrix(initializer: Callable[..., Tensor], num_summed: int) -> Callable[..., Tensor]:
    """Return an initializer of kernels that draws each as the matrix it is, and other numbers each time."""
    draw = _clone(initializer)

    def initialize(shape: Tensor, dtype: str | None = None) -> Tensor:
        # Keras computes the fans of a kernel of rank 3 as if it were a convolution, and so would start
        # attention several times too small.
        matrix_shape = math.prod(shape[:num_summed]), math.prod(shape[num_summed:])
        return ops.reshape(draw(matrix_shape, dtype=dtype), shape)

    return initialize
