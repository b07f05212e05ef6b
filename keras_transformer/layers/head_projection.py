"""Linear maps from the model width to heads, and back."""

import math

from keras import ops

from keras_transformer.types import Tensor


def split_heads(inputs: Tensor, kernel: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `einsum("btd,dhk->bthk", inputs, kernel) + bias`.

    As one product of matrices, since the einsum's batched products and the sums
    that its bias leaves in the gradient take twice as long on a CPU.

    Args:
        inputs: `(b, t, d)`.
        kernel: `(d, h, k)`.
        bias: `(h, k)`, or None.

    Returns:
        `(b, t, h, k)`.
    """
    width, num_heads, head_dim = kernel.shape
    rows = ops.reshape(inputs, (-1, width))  # (b * t, d)
    outputs = ops.matmul(rows, ops.reshape(kernel, (width, num_heads * head_dim)))  # (b * t, h * k)
    if bias is not None:
        outputs = ops.add(outputs, ops.reshape(bias, (num_heads * head_dim,)))
    return ops.reshape(outputs, (-1, ops.shape(inputs)[1], num_heads, head_dim))


def merge_heads(heads: Tensor, kernel: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute `einsum("bthk,hkd->btd", heads, kernel) + bias`, as `split_heads` does.

    Args:
        heads: `(b, t, h, k)`.
        kernel: `(h, k, d)`; the output may have more than one last axis.
        bias: `(d,)`, or None.

    Returns:
        `(b, t, d)`.
    """
    num_heads, head_dim, *output_shape = kernel.shape
    width = math.prod(output_shape)
    rows = ops.reshape(heads, (-1, num_heads * head_dim))  # (b * t, h * k)
    outputs = ops.matmul(rows, ops.reshape(kernel, (num_heads * head_dim, width)))
    if bias is not None:
        outputs = ops.add(outputs, ops.reshape(bias, (width,)))
    return ops.reshape(outputs, (-1, ops.shape(heads)[1], *output_shape))
