"""Gradients: numbers added at labels in place, and an order that a graph keeps."""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_transformer._backend.compiler import _in_compiler, _only_processors
from keras_transformer.types import Tensor


def add_at_labels(dense: Tensor, labels: Tensor, values: Tensor) -> Tensor:
    """Add a number at the label of each token.

    On a processor this is in place, so `dense` must be the result of an operation that nothing else uses.

    Args:
        dense: `(b, t, v)`; not to be used any more.
        labels: integers `(b, t, 1)`.
        values: `(b, t, 1)`, of the dtype of `dense`.

    Returns:
        `(b, t, v)`.
    """
    flat_labels = ops.reshape(labels, (-1,))  # (b, t, 1) -> (b * t,)
    size = dense.shape[-1]
    offsets = ops.arange(ops.shape(flat_labels)[0], dtype="int32") * size + flat_labels
    flat, flat_values = ops.reshape(dense, (-1,)), ops.reshape(values, (-1,))
    # TensorFlow's scatter copies all of a tensor that is as large as the logits.
    if _only_processors() and not _in_compiler():
        flat = _add_in_place(flat, offsets, flat_values)
    else:
        flat = ops.scatter_update(flat, offsets[:, None], flat_values, reduction="add")
    # Not the shape of `dense`, which would be kept for it.
    return ops.reshape(flat, (*ops.shape(labels)[:-1], size))


def _add_in_place(flat: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
    import tensorflow as tf

    @tf.custom_gradient
    def added(flat: Tensor, values: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        """Give the sum, and the gradient that TensorFlow's own operation lacks."""
        rows, row_values = tf.reshape(flat, (-1, 1)), tf.reshape(values, (-1, 1))
        rows = tf.raw_ops.InplaceAdd(x=rows, i=offsets, v=row_values)
        return tf.reshape(rows, (-1,)), lambda upstream: (upstream, tf.gather(upstream, offsets))

    return added(flat, values)


def finished(tensors: Sequence[Tensor | None], others: Sequence[Tensor] | None = None) -> list[Tensor | None]:
    """Hand tensors on once all of them are computed, or once others are.

    Args:
        tensors: of any shapes; None stays None.
        others: what has to be there first; None for the tensors themselves.

    Returns:
        The same numbers, those of embeddings with equal tokens added up.
    """
    # The other backends order by value alone. In a graph of TensorFlow nothing else orders the update of one
    # weight after the gradient of another that is computed from it: of 30 equal steps, four or five gave
    # another gradient, so two runs were not the same.
    if keras.backend.backend() != "tensorflow":
        return list(tensors)
    import tensorflow as tf

    # TensorFlow keeps the gradient of an embedding as rows, whose squares Keras's Adam would take one by one.
    dense = [None if tensor is None else tf.convert_to_tensor(tensor) for tensor in tensors]
    first = dense if others is None else others
    with tf.control_dependencies([tensor for tensor in first if tensor is not None]):
        return [None if tensor is None else tf.identity(tensor) for tensor in dense]
