"""Random bits from a counter, the same on every backend, for dropout and for sampling."""

from functools import partial

import keras
import numpy as np
from keras import ops

from keras_transformer._backend.compiler import _only_processors, compile_function
from keras_transformer.types import Shape, Tensor

# A word is a hash of its number and of a key of two words, each step of which is "lowbias32" (Wellons 2018),
# a permutation of 32 bits that was found by search. So a seed gives the same numbers eagerly, in a graph,
# under XLA and on every backend, and more numbers change none of the first ones. `keras.random` differs in
# all of that, on TensorFlow between a graph and XLA too.
_GOLDEN = np.uint32(0x9E3779B9)  # 2^32 over the golden ratio, odd
_FIRST, _SECOND = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)


def _random_bits(num_words: Tensor | int, seed: Tensor) -> Tensor:
    """Draw `n` words of 32 random bits on TensorFlow, the same ones from the same seed of two integers."""
    import tensorflow as tf

    # On a processor TensorFlow's generator takes half the time of dropout; elsewhere it is one fast kernel.
    if not _only_processors():
        seed = tf.cast(seed % (tf.int32.max - 1), "int32")  # as XLA wants it
        return tf.random.stateless_uniform((num_words,), seed, None, None, tf.uint32)
    seed = tf.cast(seed, tf.uint32)
    # Rejected: SplitMix64, which only dropout could use. It took 2.9 ms in place of 3.6 for the bits of
    # 256 x 32 x 512 numbers: no difference in a step. And words of 64 bits: XLA fails to make them bytes.
    numbers = tf.bitcast(tf.range(tf.cast(num_words, "int32")), tf.uint32)
    return _hash(numbers, seed[0], seed[1])


def draw_normal(shape: Shape, dtype: str, stddev: float) -> Tensor:
    """Draw the first values of a large variable, those of `keras.initializers.RandomNormal`.

    Args:
        shape: of the variable.
        dtype: of the variable.
        stddev: the standard deviation.

    Returns:
        A tensor `shape`.
    """
    initializer = keras.initializers.RandomNormal(stddev=stddev)
    if keras.backend.backend() != "tensorflow":
        return initializer(shape, dtype)
    import tensorflow as tf

    # Eagerly there are three tensors of the size at once, and TensorFlow keeps the memory. A graph computes
    # in place, but one without an input is folded, eagerly. TensorFlow warns of new lambdas.
    seed = tf.constant([initializer.seed % (tf.int32.max - 1), 0])
    draw = partial(tf.random.stateless_normal, shape, stddev=stddev, dtype=dtype)
    return compile_function(draw, inputs=None)(seed)


def draw_uniforms(seed: Tensor | int | None, max_length: int, rows: Tensor) -> Tensor:
    """Draw all the randomness that a search needs, before its loop.

    Each number depends on the seed, its step and its row alone. Without a seed, the seed is drawn from
    Keras's global generator, which `keras.utils.set_random_seed` sets: the numbers are new at each call.

    Args:
        seed: an integer, a scalar tensor of one, or None.
        max_length: the most tokens, `T`.
        rows: integers `(r,)`, the numbers of the hypotheses, among all batches of a call: otherwise outputs
            would depend on the batch size.

    Returns:
        float32 `(T, r)`, at least 0 and below 1, multiples of `2 ** -24`.
    """
    if seed is None:
        # New at each call of a `tf.function` too. `jax.jit` has no such state: Keras raises a ValueError.
        seed = keras.random.randint((), 0, 2**31 - 1, "int32")
    if isinstance(seed, int):  # of any size: its bits are folded into 32
        folded = (seed ^ seed >> 32) & 0xFFFFFFFF
        seed = folded - (folded >> 31 << 32)
    seed = ops.cast(seed, "int32")
    keys = _hash(ops.cast(rows, "int32"), seed, seed)  # (r,)
    bits = _hash(ops.arange(max_length, dtype="int32")[:, None], keys, keys)  # (T, r)
    return ops.cast(_shift(bits, 8), "float32") * 2.0**-24


def _hash(numbers: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Hash numbers with a key of two words, which broadcast to them; all int32 or, on TensorFlow, uint32."""
    golden = _constant(_GOLDEN, numbers)
    first = _mix(first + golden)
    second = _mix(first + second)
    return _mix(_mix(first + golden * numbers) + second)


def _mix(bits: Tensor) -> Tensor:
    """Scatter the bits of 32-bit integers; products wrap around."""
    bits = (bits ^ _shift(bits, 16)) * _constant(_FIRST, bits)
    bits = (bits ^ _shift(bits, 15)) * _constant(_SECOND, bits)
    return bits ^ _shift(bits, 16)


def _shift(bits: Tensor, count: int) -> Tensor:
    """Shift to the right and fill up with zeros, which signed integers do not do by themselves."""
    shifted = ops.right_shift(bits, count)
    is_signed = keras.backend.standardize_dtype(bits.dtype) == "int32"
    return ops.bitwise_and(shifted, (1 << (32 - count)) - 1) if is_signed else shifted


def _constant(value: np.uint32, like: Tensor) -> Tensor:
    """Return a constant in the dtype of other words: unsigned where that saves operations, else signed."""
    dtype = keras.backend.standardize_dtype(like.dtype)
    return ops.convert_to_tensor(value.astype(dtype), dtype)


class GeneratorState:
    """The state of the generator that the backend keeps for the whole process; only torch has one."""

    # Keras leaves dropout without a seed to torch, which draws from it.
    @staticmethod
    def read() -> list[int]:
        """Return the state, empty where the backend has none."""
        if keras.backend.backend() != "torch":
            return []
        import torch

        return torch.get_rng_state().numpy().view("int64").tolist()

    @staticmethod
    def write(state: list[int]) -> None:
        """Make the generator go on where the state was read."""
        if keras.backend.backend() == "torch" and state:
            import torch

            torch.set_rng_state(torch.tensor(state, dtype=torch.int64).view(torch.uint8))
