"""Dropout that draws no more random bits than it needs."""

import keras
from keras import ops

from keras_transformer.layers.random_bits import random_bits
from keras_transformer.types import Shape, Tensor

_NUM_VALUES = 2**8


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Dropout):
    """Keras's dropout (Srivastava et al. 2014), with 8 random bits for each number on TensorFlow.

    There most of the time of dropout goes into drawing a float32 for each number. A rate lies between two
    neighbouring multiples of 1/256; each call draws which of them it takes, so that every number is dropped
    with the probability `rate`, and the expectation is exact.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Drop numbers of a tensor of any shape where `training`; Keras calls this."""
        drops = training and 0 < self.rate < 1 - 1 / _NUM_VALUES and self.noise_shape is None
        if not drops or keras.backend.backend() != "tensorflow":
            return super().call(inputs, training=training)
        keep = _draw(ops.shape(inputs), self.rate, self.seed_generator.next())
        # A product is one operation in each direction, where `where` and the scaling are two slow ones.
        return inputs * (ops.cast(keep, inputs.dtype) * (1 / (1 - self.rate)))


def _draw(shape: Shape, rate: float, seed: Tensor) -> Tensor:
    """Draw booleans of a shape, each false with the probability `rate`."""
    import tensorflow as tf

    size = tf.reduce_prod(shape)
    # Eight numbers from each, and one for the share of the calls that drop a little more.
    bits = random_bits((size + 7) // 8 + 1, seed)
    share = tf.cast(tf.bitcast(bits[-1], tf.uint16)[0], "float32") / 2**16  # in [0, 1)
    num_dropped = tf.cast(tf.cast(rate * _NUM_VALUES, "float32") + share, "int32")
    values = tf.reshape(tf.bitcast(bits, tf.uint8), (-1,))
    return tf.reshape(values[:size], shape) >= tf.cast(num_dropped, "uint8")
