"""Initializers of kernels that are matrices in another shape, each drawing numbers of its own."""

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_transformer.types import Tensor


def fresh_copy(initializer: Any) -> Any:
    """Copy an initializer, so that two weights do not start equal.

    A Keras initializer chooses its seed once and draws the same numbers at
    every call: queries, keys and values would start with one kernel.

    Args:
        initializer: what `keras.initializers.get` returned.

    Returns:
        A copy with a seed of its own, unless one was given; a function as it is.
    """
    if not hasattr(initializer, "get_config"):
        return initializer
    return type(initializer).from_config(initializer.get_config())


def matrix_initializer(initializer: Any, rows: int, columns: int) -> Callable[..., Tensor]:
    """Draw a kernel as the matrix that it is.

    Keras computes the fans of a kernel of rank 3 as if it were a convolution,
    and so starts attention several times too small.

    Args:
        initializer: what `keras.initializers.get` returned.
        rows: what is summed over.
        columns: what comes out.

    Returns:
        An initializer for a shape of as many numbers.
    """
    draw = fresh_copy(initializer)

    def initialize(shape: tuple[int, ...], dtype: Any = None) -> Tensor:
        """Draw the matrix and give it the shape of the kernel."""
        return ops.reshape(draw((rows, columns), dtype=dtype), shape)

    return initialize
