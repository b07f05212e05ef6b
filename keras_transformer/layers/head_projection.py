"""Linear maps from the model width to heads, and back."""

import math
from typing import NamedTuple

from keras import ops

from keras_transformer.types import Tensor


def leading_sizes(inputs: Tensor, num_axes: int) -> tuple[Tensor | int, ...]:
    """Give sizes for `ops.reshape`.

    Args:
        inputs: `(b, t, ...)`.
        num_axes: how many axes are wanted.

    Returns:
        The sizes; -1 for an unknown batch where the others are known, which saves operations in a step of
        decoding. Beside a size of 0 there is no -1.
    """
    batch, *others = ops.shape(inputs)[:num_axes]
    is_derived = not isinstance(batch, int) and all(isinstance(size, int) and size > 0 for size in others)
    return (-1 if is_derived else batch), *others


class LinearMap(NamedTuple):
    """A kernel of any axes and its bias, as one product of matrices needs them.

    An einsum's batched products, and the sums that its bias leaves in the gradient, take twice as
    long on a CPU.
    """

    matrix: Tensor
    """`(i, o)`."""
    bias: Tensor | None
    """`(o,)`, or None."""

    @classmethod
    def of(cls, kernel: Tensor, bias: Tensor | None, num_inputs: int, dtype: str) -> "LinearMap":
        """Flatten a kernel.

        Args:
            kernel: `(inputs, outputs)`, any number of axes each.
            bias: `(outputs)`, or None.
            num_inputs: how many of the kernel's axes are inputs.
            dtype: to cast both to, since Keras does so only inside `__call__`.

        Returns:
            The map.
        """
        inputs, outputs = math.prod(kernel.shape[:num_inputs]), math.prod(kernel.shape[num_inputs:])
        matrix = ops.reshape(ops.cast(kernel, dtype), (inputs, outputs))
        return cls(matrix, None if bias is None else ops.reshape(ops.cast(bias, dtype), (outputs,)))

    def __call__(self, rows: Tensor) -> Tensor:
        """Map rows `(r, i)` to `(r, o)`."""
        outputs = ops.matmul(rows, self.matrix)
        return outputs if self.bias is None else ops.add(outputs, self.bias)


def split_heads(inputs: Tensor, to_heads: LinearMap, num_heads: int) -> Tensor:
    """Compute `einsum("btd,dhk->bthk", inputs, kernel) + bias`.

    Args:
        inputs: `(b, t, d)`.
        to_heads: of a kernel `(d, h, k)` and a bias `(h, k)`.
        num_heads: heads, `h`.

    Returns:
        `(b, t, h, k)`.
    """
    width, outputs = to_heads.matrix.shape
    heads = to_heads(ops.reshape(inputs, (-1, width)))  # (b * t, h * k)
    return ops.reshape(heads, (*leading_sizes(inputs, 2), num_heads, outputs // num_heads))


def merge_heads(heads: Tensor, from_heads: LinearMap, output_shape: tuple[int, ...]) -> Tensor:
    """Compute `einsum("bthk,hkd->btd", heads, kernel) + bias`.

    Args:
        heads: `(b, t, h, k)`.
        from_heads: of a kernel `(h, k, d)`, which may have more than one last axis, and its bias.
        output_shape: the last axes, `(d,)`.

    Returns:
        `(b, t, d)`.
    """
    outputs = from_heads(ops.reshape(heads, (-1, from_heads.matrix.shape[0])))  # (b * t, d)
    return ops.reshape(outputs, (*leading_sizes(heads, 2), *output_shape))
