"""The order of operations in a graph of TensorFlow, where the values do not say it."""

from collections.abc import Sequence

import keras

from keras_transformer.types import Tensor


def after(others: Sequence[Tensor], tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Hand tensors on once others are there; on TensorFlow, since the other backends order by value alone.

    Args:
        others: what has to be there first.
        tensors: of any shapes; None stays None.

    Returns:
        The same numbers.
    """
    if keras.backend.backend() != "tensorflow":
        return list(tensors)
    import tensorflow as tf

    with tf.control_dependencies(list(others)):
        return [None if tensor is None else tf.identity(tensor) for tensor in tensors]
