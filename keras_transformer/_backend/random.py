"""Random bits from a counter, the same on every backend, for dropout and sampling."""

from functools import partial

import keras
import numpy as np
from keras import ops

from keras_transformer._backend.compiler import _only_processors, compile_function
from keras_transformer.types import Shape, Tensor

# Each word is a hash of its index and a key of two words, with the 32-bit permutation "lowbias32" (Wellons
# 2018) as the step. A seed therefore returns the same numbers eagerly, in a graph, under XLA and on every
# backend, and drawing more numbers does not change the first ones. `keras.random` guarantees none of this; on
# TensorFlow it differs even between a graph and XLA.
_GOLDEN = np.uint32(0x9E3779B9)  # 2^32 over the golden ratio, odd
_FIRST, _SECOND = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)


def _random_bits(num_words: Tensor | int, seed: Tensor) -> Tensor:
    """Draw words of 32 random bits on TensorFlow, determined by a seed of two integers."""
    import tensorflow as tf

    # TensorFlow's generator takes half the time of dropout on CPU; elsewhere it is one fast kernel.
    if not _only_processors():
        seed = tf.cast(seed % (tf.int32.max - 1), "int32")  # XLA requires int32
        return tf.random.stateless_uniform((num_words,), seed, None, None, tf.uint32)
    seed = tf.cast(seed, tf.uint32)
    # Rejected: SplitMix64, usable only for dropout (2.9 ms instead of 3.6 ms for the bits of 256 x 32 x 512
    # numbers, no difference in a step), and 64-bit words, which XLA cannot convert to bytes.
    numbers = tf.bitcast(tf.range(tf.cast(num_words, "int32")), tf.uint32)
    return _hash(numbers, seed[0], seed[1])


def draw_normal(shape: Shape, dtype: str, stddev: float) -> Tensor:
    """Draw the initial values of a large variable, as `keras.initializers.RandomNormal`, in less memory.

    Args:
        shape: Shape of the variable.
        dtype: Dtype of the variable.
        stddev: Standard deviation.

    Returns:
        A tensor of this shape.
    """
    initializer = keras.initializers.RandomNormal(stddev=stddev)
    if keras.backend.backend() != "tensorflow":
        return initializer(shape, dtype)
    import tensorflow as tf

    # Eagerly, TensorFlow needs three tensors of this size at once and keeps the memory. A graph computes in
    # place, but needs an input, the seed, or it is folded eagerly. A `partial`, because TensorFlow warns
    # about repeated new lambdas.
    seed = tf.constant([initializer.seed % (tf.int32.max - 1), 0])
    draw = partial(tf.random.stateless_normal, shape, stddev=stddev, dtype=dtype)
    return compile_function(draw, inputs=None)(seed)


def draw_uniforms(seed: Tensor | int | None, max_length: int, rows: Tensor) -> Tensor:
    """Draw all random numbers of a search before its loop.

    Each number depends only on the seed, its step and its row.

    Args:
        seed: An integer or an integer scalar tensor. If None, drawn at each call from Keras's global
            generator, which `keras.utils.set_random_seed` seeds.
        max_length: Maximum number of steps, `T`.
        rows: Integers `(r,)`, indices of the hypotheses among all batches of a call, so that outputs do not
            depend on the batch size.

    Returns:
        float32 `(T, r)` in [0, 1), multiples of `2 ** -24`.
    """
    if seed is None:
        # Drawn at each call, also in a `tf.function`. In `jax.jit` Keras raises a ValueError.
        seed = keras.random.randint((), 0, 2**31 - 1, "int32")
    if isinstance(seed, int) and not -(2**31) <= seed < 2**31:  # folded into 32 bits
        folded = (seed ^ seed >> 32) & 0xFFFFFFFF
        seed = folded - (folded >> 31 << 32)
    seed = ops.cast(seed, "int32")
    keys = _hash(ops.cast(rows, "int32"), seed, seed)  # (r,)
    bits = _hash(ops.arange(max_length, dtype="int32")[:, None], keys, keys)  # (T, r)
    return ops.cast(_shift(bits, 8), "float32") * 2.0**-24


def _hash(numbers: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Hash numbers with a key of two words that broadcast to them; all int32 or, on TensorFlow, uint32."""
    golden = _constant(_GOLDEN, numbers)
    first = _mix(first + golden)
    second = _mix(first + second)
    return _mix(_mix(first + golden * numbers) + second)


def _mix(bits: Tensor) -> Tensor:
    """Mix the bits of 32-bit integers; products wrap around."""
    bits = (bits ^ _shift(bits, 16)) * _constant(_FIRST, bits)
    bits = (bits ^ _shift(bits, 15)) * _constant(_SECOND, bits)
    return bits ^ _shift(bits, 16)


def _shift(bits: Tensor, count: int) -> Tensor:
    """Shift right and fill with zeros, for signed integers, too."""
    shifted = ops.right_shift(bits, count)
    is_signed = keras.backend.standardize_dtype(bits.dtype) == "int32"
    return ops.bitwise_and(shifted, (1 << (32 - count)) - 1) if is_signed else shifted


def _constant(value: np.uint32, like: Tensor) -> Tensor:
    """Return a constant in the dtype of `like`, int32 or uint32."""
    dtype = keras.backend.standardize_dtype(like.dtype)
    return ops.convert_to_tensor(value.astype(dtype), dtype)


class GeneratorState:
    """State of the backend's global random generator; only torch has one."""

    # Keras's dropout without a seed draws from torch's global generator.
    @staticmethod
    def read() -> list[int]:
        """Return the state, an empty list if the backend has none."""
        if keras.backend.backend() != "torch":
            return []
        import torch

        return torch.get_rng_state().numpy().view("int64").tolist()

    @staticmethod
    def write(state: list[int]) -> None:
        """Restore a state that `read` returned."""
        if keras.backend.backend() == "torch" and state:
            import torch

            torch.set_rng_state(torch.tensor(state, dtype=torch.int64).view(torch.uint8))
