"""Chance that is the same everywhere: uniform numbers from a counter."""

from typing import Any

import keras
from keras import ops

from keras_transformer.backend.compiler import only_processors
from keras_transformer.types import Tensor

_GAMMA = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, made odd
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def random_bits(num_words: Tensor | int, seed: Tensor) -> Tensor:
    """Draw words of 64 random bits: the same ones from the same seed.

    TensorFlow's own generator takes half of the time of dropout on a processor. There this is SplitMix64
    (Steele et al. 2014, "Fast splittable pseudorandom number generators"), from a start that is a hash of the
    seed; on other devices, where TensorFlow's is fast, it is TensorFlow's.

    Args:
        num_words: an integer scalar, `n`.
        seed: two integers.

    Returns:
        Unsigned 64-bit integers `(n,)`.
    """
    import tensorflow as tf

    if not only_processors():
        seed = tf.cast(seed % (tf.int32.max - 1), "int32")  # as XLA wants it
        return tf.random.stateless_uniform((num_words,), seed, None, None, tf.uint64)
    first, second = (tf.cast(seed[index], tf.uint64) for index in (0, 1))
    start = _mixed(_mixed(first + _word(_GAMMA)) + second)
    positions = tf.bitcast(tf.range(tf.cast(num_words, "int64")), tf.uint64)
    return _mixed(start + _word(_GAMMA) * positions)


def _mixed(words: Tensor) -> Tensor:
    """Scatter the bits of words, each to another."""
    import tensorflow as tf

    shifted, xor = tf.bitwise.right_shift, tf.bitwise.bitwise_xor
    words = xor(words, shifted(words, _word(30))) * _word(_FIRST)
    words = xor(words, shifted(words, _word(27))) * _word(_SECOND)
    return xor(words, shifted(words, _word(31)))


def _word(value: int) -> Tensor:
    import tensorflow as tf

    return tf.constant(value, tf.uint64)


# Odd numbers that scatter the bits of what they multiply, as signed 32-bit integers: the golden ratio
# of 2**32, and the two of the finalizer "lowbias32", found by search (Wellons 2018).
GOLDEN, FIRST, SECOND = -0x61C88647, 0x7FEB352D, -0x7B935975


def fresh_seed(search: Any) -> Tensor | None:
    """Draw a seed for one call of a search that wants other answers each time.

    It must be drawn outside of `fixed_weights`, within which Keras forgets that its generator has moved on.

    Args:
        search: any; only one whose `seed` is None needs one.

    Returns:
        An int32 scalar, or None.
    """
    return _random_seed() if getattr(search, "seed", 0) is None else None


def draw_uniforms(seed: Tensor | int | None, max_length: int, rows: Tensor) -> Tensor:
    """Draw all the chance that a search needs, before its loop.

    Each number is a hash of the seed, its step and its row. So one integer seed gives the same numbers
    eagerly, in a graph, under XLA and on every backend, and neither other rows nor more steps change
    those that were there: `keras.random` differs in all of that, on TensorFlow between a graph and
    XLA too.

    Without a seed, the seed is drawn from Keras's global generator, which
    `keras.utils.set_random_seed` sets: the numbers are new at each call, also at each call of a
    `tf.function`. `jax.jit` has no such state, so there Keras raises a ValueError.

    Args:
        seed: an integer, a scalar tensor of one, or None.
        max_length: the most tokens, `T`.
        rows: integers `(r,)`, the numbers of the hypotheses.

    Returns:
        float32 `(T, r)`, at least 0 and below 1, multiples of `2 ** -24`.
    """
    seed = _random_seed() if seed is None else seed
    base = _mix(_fold(seed) if isinstance(seed, int) else seed)
    rows = _mix(base + GOLDEN * (1 + ops.cast(rows, "int32")))
    steps = GOLDEN * (1 + ops.arange(max_length, dtype="int32"))  # (T,)
    bits = _mix(_mix(rows[None, :] ^ steps[:, None]) + rows[None, :])  # (T, r)
    return ops.cast(_shift(bits, 8), "float32") * 2.0**-24


def _random_seed() -> Tensor:
    return keras.random.randint((), 0, 2**31 - 1, "int32")


def _mix(bits: Tensor) -> Tensor:
    """Scatter the bits of 32-bit integers; products wrap around."""
    bits = (bits ^ _shift(bits, 16)) * FIRST
    bits = (bits ^ _shift(bits, 15)) * SECOND
    return bits ^ _shift(bits, 16)


def _shift(bits: Tensor, count: int) -> Tensor:
    """Shift to the right, zeros following: the integers are signed, the bits are not."""
    return ops.bitwise_and(ops.right_shift(bits, count), (1 << (32 - count)) - 1)


def _fold(seed: int) -> Tensor:
    """Make an integer of any size a 32-bit one."""
    bits = (seed ^ seed >> 32) & 0xFFFFFFFF
    return ops.convert_to_tensor(bits - (bits >> 31 << 32), "int32")
