"""The two normalisations that a Transformer may use."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.arguments import check_choice
from keras_transformer.backend import random_bits
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


NORMALIZATIONS = ("layer", "rms")


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer normalisation of the last axis, trained on TensorFlow in fewer operations.

    TensorFlow runs each operation by itself and derives twice as many for the gradient as one needs
    that is written out. The numbers are the same to rounding.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Normalise `(..., d)`; Keras calls this."""
        if not training or keras.backend.backend() != "tensorflow":
            return super().call(inputs)
        rows = ops.reshape(ops.cast(inputs, "float32"), (-1, inputs.shape[-1]))
        outputs = _normalize_rows(
            rows, ops.cast(self.gamma, "float32"), ops.cast(self.beta, "float32"), self.epsilon
        )
        return ops.cast(ops.reshape(outputs, ops.shape(inputs)), self.compute_dtype)


def _normalize_rows(rows: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Normalise rows `(r, d)`, with `gamma` and `beta` `(d,)`: Ba et al. 2016, equation 4."""

    @ops.custom_gradient
    def normalized(rows: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        """Give the normalised rows, and how their gradient is computed."""
        centered = rows - ops.mean(rows, axis=-1, keepdims=True)
        inverse = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)  # (r, 1)
        standard = centered * inverse

        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """Give the gradients of the rows, of `gamma` and of `beta`."""
            product = upstream * standard
            # The means over a row of what reaches it through `gamma`.
            weights = gamma[:, None] / gamma.shape[0]
            mean, mean_product = ops.matmul(upstream, weights), ops.matmul(product, weights)  # (r, 1)
            of_rows = (upstream * gamma - mean - standard * mean_product) * inverse
            return of_rows, ops.sum(product, axis=0), ops.sum(upstream, axis=0)

        return standard * gamma + beta, gradient

    return normalized(rows, gamma, beta)


def make_normalization(kind: str, *, epsilon: float, dtype: Any, name: str) -> keras.layers.Layer:
    """Make the layer that a name stands for.

    Args:
        kind: `layer` (Ba et al. 2016), as in the paper, or `rms` (Zhang and
            Sennrich 2019), which leaves out the mean and the bias.
        epsilon: what is added to the variance.
        dtype: of the layer.
        name: of the layer.

    Returns:
        A Keras layer.

    Raises:
        ValueError: an unknown kind.
    """
    check_choice(NORMALIZATIONS, normalization=kind)
    makers = {"layer": LayerNormalization, "rms": keras.layers.RMSNormalization}
    layer = makers[kind](epsilon=epsilon, dtype=dtype, name=name)
    layer.supports_masking = True  # Keras's RMS normalisation would drop the mask
    return layer
