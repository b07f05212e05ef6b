"""Random bits of TensorFlow on a processor: SplitMix64, and no two seeds alike."""

import keras
import numpy as np
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("the other backends draw their own bits", allow_module_level=True)

import tensorflow as tf

from keras_transformer.backend import random_bits

WORD = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mixed(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def drawn(num_words: int, *seed: int) -> np.ndarray:
    return random_bits(num_words, tf.constant(seed, tf.uint32)).numpy()


def test_the_mixing_is_that_of_splitmix64() -> None:
    # The first outputs of the public generator for the seed 0.
    outputs = [mixed((GAMMA * (n + 1)) & WORD) for n in range(3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.parametrize("seed", [(0, 0), (1, 2), (2**32 - 1, 7)])
def test_words_are_those_of_a_generator_that_begins_at_a_hash_of_the_seed(seed: tuple[int, int]) -> None:
    start = mixed((mixed((seed[0] + GAMMA) & WORD) + seed[1]) & WORD)
    assert drawn(5, *seed).tolist() == [mixed((start + GAMMA * n) & WORD) for n in range(5)]


def test_graph_and_compiler_draw_the_same() -> None:
    seed = tf.constant([5, 6], tf.uint32)
    for jit_compile in (False, True):
        function = tf.function(lambda seed: random_bits(9, seed), jit_compile=jit_compile)
        np.testing.assert_array_equal(function(seed), drawn(9, 5, 6))


def test_every_byte_comes_as_often() -> None:
    counts = np.bincount(drawn(2**18, 3, 4).view(np.uint8), minlength=256)
    chi_square = np.sum((counts - counts.mean()) ** 2 / counts.mean())
    assert 255 - 4 * 22.6 < chi_square < 255 + 4 * 22.6  # the deviation of 255 degrees of freedom


@pytest.mark.parametrize("others", [[(9, n) for n in range(64)], [(n, 9) for n in range(64)]])
def test_neighboring_seeds_have_nothing_in_common(others: list[tuple[int, int]]) -> None:
    words = np.stack([np.unpackbits(drawn(64, *seed).view(np.uint8)) for seed in others])  # (64, 4096)
    correlations = np.corrcoef(words) - np.eye(len(others))
    assert np.abs(correlations).max() < 6 / 64  # six deviations
