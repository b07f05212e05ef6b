"""Random bits on TensorFlow, of which dropout needs many."""

from keras_transformer.layers.compiler import only_processors
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
