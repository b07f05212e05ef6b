"""Numbers of a batch that is spread over the replicas of a `tf.distribute` strategy."""

import keras

from keras_transformer.types import Tensor


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
