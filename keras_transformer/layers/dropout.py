"""Dropout that draws no more random bits than it needs."""

import keras
from keras import ops

from keras_transformer.types import Shape, Tensor

_NUM_VALUES = 2**16


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Dropout):
    """Keras's dropout (Srivastava et al. 2014), with 16 random bits for each number on TensorFlow.

    There half the time of dropout goes into drawing a float32 for each number. The rate is rounded to
    1/65536, and what stays is scaled by the rounded one, so that the expectation is exact.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Drop numbers of a tensor of any shape where `training`; Keras calls this."""
        drops = training and self.rate and self.noise_shape is None
        if not drops or keras.backend.backend() != "tensorflow":
            return super().call(inputs, training=training)
        num_dropped = min(round(self.rate * _NUM_VALUES), _NUM_VALUES - 1)
        keep = _random_values(ops.shape(inputs), self.seed_generator.next()) >= num_dropped
        return ops.where(keep, inputs * (_NUM_VALUES / (_NUM_VALUES - num_dropped)), 0.0)


def _random_values(shape: Shape, seed: Tensor) -> Tensor:
    """Draw uint16 of a shape, from all 65536 values."""
    import tensorflow as tf

    size = tf.reduce_prod(shape)
    seed = tf.cast(seed % (tf.int32.max - 1), "int32")  # as XLA wants it
    bits = tf.random.stateless_uniform(((size + 3) // 4,), seed, None, None, tf.uint64)
    values = tf.reshape(tf.bitcast(bits, tf.uint16), (-1,))  # four of each
    return tf.reshape(values[:size], shape)
