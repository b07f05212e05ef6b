"""Numbers of a batch that is spread over the replicas of a `tf.distribute` strategy."""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_transformer.backend.compiler import _only_processors, in_compiler
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
    add = _add_in_place if _only_processors() and not in_compiler() else _add
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


def sum_over_replicas(value: Tensor) -> Tensor:
    """Add up a number that each replica has of its own part of the batch.

    A mean over a global batch is each replica's sum divided by the count of all: Keras adds up the
    gradients of the replicas. JAX needs none of this, since its arrays are global, and torch has one
    replica in a process.

    Args:
        value: a scalar.

    Returns:
        The sum, the same on each replica; the value itself where there is one replica.
    """
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    if tf.distribute.get_strategy().num_replicas_in_sync == 1 or tf.distribute.in_cross_replica_context():
        return value
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)
