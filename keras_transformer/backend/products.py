"""Products of matrices for the few rows of a step of decoding, as each backend does them best."""

from collections.abc import Callable

import keras
from keras import ops

from keras_transformer.backend.compiler import in_compiler
from keras_transformer.types import Tensor


def batched_product(first: Tensor, second: Tensor, *, transposed: bool = False) -> Tensor:
    """Multiply many small matrices.

    Args:
        first: `(b, h, n, k)`.
        second: `(b, h, k, m)`, or `(b, h, m, k)` if `transposed`.
        transposed: whether the second is meant the other way round.

    Returns:
        `(b, h, n, m)`.
    """
    if in_compiler() and first.shape[2] == 1:
        # XLA makes one fast loop of this, and on a CPU a slow one of many products with one row.
        if transposed:
            return ops.sum(first * second, axis=-1)[:, :, None, :]
        return ops.sum(ops.transpose(first, (0, 1, 3, 2)) * second, axis=2, keepdims=True)
    # TensorFlow has no such operation for float16 on a processor.
    if keras.backend.backend() != "tensorflow" or first.dtype == "float16":
        return ops.matmul(first, ops.transpose(second, (0, 1, 3, 2)) if transposed else second)
    import tensorflow as tf

    # The third version of the operation stays with Eigen, where `matmul` would go to oneDNN,
    # which prepares itself anew for each size: 170 microseconds against 13 for eight heads.
    if in_compiler() or first.shape[2] == 1:
        return tf.raw_ops.BatchMatMulV3(x=first, y=second, Tout=first.dtype, adj_y=transposed)
    # Row by row: from 16,384 multiplications on, this operation goes through the batch one matrix after
    # the other and shares each out among the threads, up to twenty times as slow.
    rows, matrices = first[:, :, :, None, :], second[:, :, None, :, :]
    return tf.raw_ops.BatchMatMulV3(x=rows, y=matrices, Tout=first.dtype, adj_y=transposed)[:, :, :, 0, :]


def product_with_table(table: Tensor, beam_size: int) -> Callable[[Tensor], Tensor]:
    """Return a function that computes `rows @ table.T` for the rows `(r, d)` of each step of a loop.

    With the rows of several hypotheses, a product with a table that was transposed before the loop takes half
    the time (TensorFlow, on a CPU); with fewer, the transposing would cost more than it gains.

    Args:
        table: `(v, d)`.
        beam_size: hypotheses for each source.
    """
    if beam_size > 1 or in_compiler():
        matrix = ops.transpose(table)
        return lambda rows: ops.matmul(rows, matrix)
    if keras.backend.backend() != "tensorflow":
        return lambda rows: ops.einsum("rd,vd->rv", rows, table)
    return lambda rows: product_with_transpose(rows, table)


def product_with_transpose(rows: Tensor, table: Tensor) -> Tensor:
    """Compute `rows @ table.T` on TensorFlow without ever writing the transpose."""
    import tensorflow as tf

    if rows.shape[0] is not None:  # as XLA wants it
        return tf.matmul(rows, table, transpose_b=True)
    # The table first, as it lies: for a few rows oneDNN is up to twice as fast so.
    return tf.transpose(tf.matmul(table, rows, transpose_b=True))
