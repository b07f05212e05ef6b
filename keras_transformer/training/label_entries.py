"""One number for each label, added to a tensor over the whole vocabulary."""

from collections.abc import Callable

from keras import ops

from keras_transformer.layers.compiler import in_compiler, only_processors
from keras_transformer.types import Tensor


def add_at_labels(dense: Tensor, labels: Tensor, values: Tensor) -> Tensor:
    """Add a number at the label of each token.

    TensorFlow's scatter copies all of a tensor that is as large as the logits. On a processor this adds in
    place instead, so that `dense` must be the result of an operation that nothing else uses.

    Args:
        dense: `(b, t, v)`; not to be used any more.
        labels: integers `(b, t, 1)`.
        values: `(b, t, 1)`, of the dtype of `dense`.

    Returns:
        `(b, t, v)`.
    """
    flat_labels = ops.reshape(labels, (-1,))
    size = dense.shape[-1]
    offsets = ops.arange(ops.shape(flat_labels)[0], dtype="int32") * size + flat_labels
    flat, flat_values = ops.reshape(dense, (-1,)), ops.reshape(values, (-1,))
    add = _add_in_place if only_processors() and not in_compiler() else _add
    # Not the shape of `dense`, which would be kept for it.
    return ops.reshape(add(flat, offsets, flat_values), (*ops.shape(labels)[:-1], size))


def _add(flat: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
    return ops.scatter_update(flat, offsets[:, None], values, reduction="add")


def _add_in_place(flat: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
    """Do the same where the numbers are."""
    import tensorflow as tf

    @tf.custom_gradient
    def added(flat: Tensor, values: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        """Give the sum, and the gradient that TensorFlow's own operation lacks."""
        rows, row_values = tf.reshape(flat, (-1, 1)), tf.reshape(values, (-1, 1))
        rows = tf.raw_ops.InplaceAdd(x=rows, i=offsets, v=row_values)
        return tf.reshape(rows, (-1,)), lambda upstream: (upstream, tf.gather(upstream, offsets))

    return added(flat, values)
