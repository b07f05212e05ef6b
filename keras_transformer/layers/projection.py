"""Projections of inputs to heads and back as products of two matrices."""

import math

import keras
from keras import ops

from keras_transformer.types import Tensor


def _clone(initializer: Tensor) -> Tensor:
    """Return an initializer of the same kind that draws other numbers."""
    # A Keras initializer chooses its seed once and draws the same numbers at every call: queries, keys and
    # values would start with one kernel. A function stays as it is.
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


def _project(equation: str, inputs: Tensor, kernel: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `einsum(equation, inputs, kernel) + bias`, as of `"btd,dhk->bthk"`, in the inputs' dtype."""
    # One product of matrices: einsum's batched products, and the sums that its bias leaves in the gradient,
    # take twice as long on a CPU. The last axes of the inputs are the first ones of the kernel, and axes that
    # the equation does not name follow the others.
    of_inputs, of_kernel = equation.split("->")[0].split(",")
    num_summed = len(set(of_inputs) & set(of_kernel))
    leading = _sizes_of(inputs, len(of_inputs) - num_summed)
    matrix, row = _flatten_kernel(kernel, bias, num_summed, inputs.dtype)
    outputs = ops.matmul(ops.reshape(inputs, (-1, matrix.shape[0])), matrix)
    outputs = outputs if row is None else ops.add(outputs, row)
    return ops.reshape(outputs, (*leading, *kernel.shape[num_summed:]))


def _flatten_kernel(
    kernel: Tensor, bias: Tensor | None, num_summed: int, dtype: str
) -> tuple[Tensor, Tensor | None]:
    """Return a kernel as a matrix `(i, o)`, whose rows are its first axes, and its bias as `(o,)`."""
    inputs, outputs = math.prod(kernel.shape[:num_summed]), math.prod(kernel.shape[num_summed:])
    matrix = ops.reshape(ops.cast(kernel, dtype), (inputs, outputs))
    return matrix, None if bias is None else ops.reshape(ops.cast(bias, dtype), (outputs,))


def _sizes_of(inputs: Tensor, num_axes: int) -> tuple[Tensor | int, ...]:
    """Return the first sizes of a tensor for `ops.reshape`."""
    batch, *others = ops.shape(inputs)[:num_axes]
    # -1 saves the operations that read the size, but is ambiguous next to a size of 0.
    is_derived = not isinstance(batch, int) and all(isinstance(size, int) and size > 0 for size in others)
    return (-1 if is_derived else batch), *others
