"""Normalization, dropout and position angles, computed faster or more exactly on some backends."""

import math
from collections.abc import Callable

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer._backend.compiler import _in_compiler
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer._backend.random import _random_bits
from keras_transformer.types import Tensor

_NUM_VALUES = 2**8
_POSITION_BLOCK = 2**12


def layer_normalization(
    inputs: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, dtype: str, *, training: bool
) -> Tensor | None:
    """Compute `(inputs - mean) / sqrt(variance + epsilon) * gamma + beta` (Ba et al. 2016, equation 4).

    Args:
        inputs: Any shape; the last axis `d` is normalized, in float32 or float64.
        gamma: `(d,)`.
        beta: `(d,)`.
        epsilon: Constant added to the variance.
        dtype: Dtype of the outputs.
        training: Whether gradients will be computed.

    Returns:
        The outputs, or None if Keras's layer is as fast.
    """
    if keras.backend.backend() != "tensorflow":
        return None

    def standardized(rows: Tensor) -> tuple[Tensor, Tensor]:
        # Nine operations with `gamma` and `beta`, Keras's layer has thirteen; for few rows each one counts.
        centered = rows - ops.mean(rows, axis=-1, keepdims=True)
        inverse = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)  # (r, 1)
        return centered * inverse, inverse

    # An explicit gradient needs half as many operations as TensorFlow's derived one.
    @ops.custom_gradient
    def normalized(rows: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        standard, inverse = standardized(rows)

        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            product = upstream * standard
            # Row means of the gradients that arrive through `gamma`.
            weights = gamma[:, None] / gamma.shape[0]
            mean, mean_product = ops.matmul(upstream, weights), ops.matmul(product, weights)  # (r, 1)
            row_gradients = (upstream * gamma - mean - standard * mean_product) * inverse
            return row_gradients, ops.sum(product, axis=0), ops.sum(upstream, axis=0)

        return standard * gamma + beta, gradient

    wide = "float64" if dtype == "float64" else "float32"
    rows, gamma, beta = (ops.cast(each, wide) for each in (inputs, gamma, beta))
    if not training:
        return ops.cast(standardized(rows)[0] * gamma + beta, dtype)
    outputs = normalized(ops.reshape(rows, (-1, rows.shape[-1])), gamma, beta)  # (b, t, d) -> (b * t, d)
    return ops.cast(ops.reshape(outputs, dynamic_shape(inputs)), dtype)


def fast_dropout(inputs: Tensor, rate: float, seed_generator: keras.random.SeedGenerator) -> Tensor | None:
    """Compute `where(uniform >= rate, inputs, 0) / (1 - rate)` with 8 random bits per number.

    Args:
        inputs: Any shape.
        rate: Probability of dropping a number.
        seed_generator: Generator of the seed, two integers.

    Returns:
        The outputs, or None if Keras's dropout is as fast, or the rate too high for 8 bits.
    """
    if keras.backend.backend() != "tensorflow" or not 0 < rate < 1 - 1 / _NUM_VALUES:
        return None
    import tensorflow as tf

    seed = seed_generator.next()
    shape = dynamic_shape(inputs)
    size = tf.reduce_prod(shape)
    # On TensorFlow most of dropout's time is spent on drawing a float32 per number; 8 bits allow only rates
    # that are multiples of 1/256. Each call draws one of the two multiples next to `rate`, so that every
    # number is dropped with probability `rate`.
    # Eight numbers need two words; two more words choose the multiple.
    bits = _random_bits((size + 7) // 8 * 2 + 2, seed)
    share = tf.cast(tf.bitcast(bits[-2], tf.uint16)[0], "float32") / 2**16  # in [0, 1)
    num_dropped = tf.cast(tf.cast(rate * _NUM_VALUES, "float32") + share, "int32")
    values = tf.reshape(tf.bitcast(bits, tf.uint8), (-1,))
    keep = tf.reshape(values[:size], shape) >= tf.cast(num_dropped, "uint8")
    # One product per direction; `where` and a scaling would be two slow operations.
    return inputs * (ops.cast(keep, inputs.dtype) * (1 / (1 - rate)))


def position_angles(start: Tensor | int, length: Tensor | int, rates: npt.NDArray[np.float64]) -> Tensor:
    """Compute `(start + arange(length))[:, None] * rates`, modulo full turns.

    Args:
        start: First position, at least 0 and below 2^24.
        length: Number of positions, `t`.
        rates: float64 `(waves,)`, radians per position.

    Returns:
        float32 angles `(t, waves)`, each with an error of about 1e-6, modulo `2 * pi`.
    """
    # In float32, `sin(p * rate)` loses one digit of precision with every digit of `p`.
    if isinstance(start, int) and isinstance(length, int):
        angles = np.arange(start, start + length)[:, None] * rates
        turns = np.floor(angles / (2 * math.pi)) * (2 * math.pi)
        return ops.convert_to_tensor((angles - turns).astype("float32"))
    positions = (ops.arange(length, dtype="int32") + start)[:, None]
    if isinstance(start, int) and keras.backend.backend() == "tensorflow" and not _in_compiler():
        angles = ops.cast(positions, "float64") * rates
        return ops.cast(angles - ops.floor(angles / (2 * math.pi)) * (2 * math.pi), "float32")
    # JAX, TPUs and LiteRT lack float64. Fractions of a turn in 32-bit integers wrap around after one turn. A
    # position is split into two parts of 12 bits, so that the error of a rate, half of 2^-32, grows to 2^-20
    # of a turn at most.
    turns = rates / (2 * math.pi)
    units = (
        np.round(part % 1.0 * 2**32).astype("int64") & 0xFFFFFFFF for part in (turns, turns * _POSITION_BLOCK)
    )
    near, far = (ops.convert_to_tensor(part.astype("uint32").view("int32")) for part in units)
    fractions = positions % _POSITION_BLOCK * near + positions // _POSITION_BLOCK * far
    return ops.cast(fractions, "float32") * (2 * math.pi / 2**32)
