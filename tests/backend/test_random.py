"""Random numbers: spread evenly, independent, and the same however they are drawn."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer._backend import compile_function, draw_normal, draw_uniforms
from keras_transformer._backend.random import _random_bits

GOLDEN = 0x9E3779B9
only_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="the other backends draw their own bits for dropout"
)


def draw(seed: int | None, max_length: int, num_rows: Any) -> np.ndarray:
    return ops.convert_to_numpy(draw_uniforms(seed, max_length, ops.arange(num_rows)))


def mix(x: int) -> int:
    """One step of lowbias32 with Python's integers."""
    x = ((x ^ x >> 16) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ x >> 15) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ x >> 16


def word(number: int, first: int, second: int) -> int:
    first = mix((first + GOLDEN) & 0xFFFFFFFF)
    second = mix((first + second) & 0xFFFFFFFF)
    return mix((mix((first + GOLDEN * number) & 0xFFFFFFFF) + second) & 0xFFFFFFFF)


def uniform(seed: int, step: int, row: int) -> float:
    is_word = -(2**31) <= seed < 2**31  # as a server gets it
    seed = (seed if is_word else seed ^ seed >> 32) & 0xFFFFFFFF
    key = word(row, seed, seed)
    return (word(step, key, key) >> 8) / 2**24


@pytest.mark.parametrize("seed", [0, 7, -1, 2**31, 2**40 + 5])
def test_the_numbers_are_those_of_python(seed: int) -> None:
    numbers = draw(seed, 3, 5)
    expected = [[uniform(seed, step, row) for row in range(5)] for step in range(3)]
    np.testing.assert_array_equal(numbers, np.array(expected, "float32"))
    assert numbers.dtype == np.float32


@pytest.mark.parametrize("seed", [0, 1, 123456])
def test_they_are_spread_evenly_and_independent(seed: int) -> None:
    numbers = draw(seed, 101, 503).astype("float64")
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.bincount((numbers * 100).astype(int).ravel(), minlength=100)
    expected = numbers.size / 100
    assert ((counts - expected) ** 2 / expected).sum() < 148.2, "99.9th percentile, 99 degrees of freedom"
    deviation = numbers.size**-0.5  # of a correlation that is none
    for first, other in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):
        assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 4 * deviation
    assert abs(np.corrcoef(numbers.ravel(), draw(seed + 1, 101, 503).ravel())[0, 1]) < 4 * deviation


def test_other_rows_and_more_steps_change_nothing() -> None:
    np.testing.assert_array_equal(draw(5, 7, 11)[:3, :5], draw(5, 3, 5))
    rows = ops.convert_to_numpy(draw_uniforms(5, 3, ops.convert_to_tensor([9, 2], "int32")))
    np.testing.assert_array_equal(rows, draw(5, 3, 11)[:, [9, 2]])


def test_compiled_code_draws_the_same() -> None:
    compiled = compile_function(lambda ids: draw_uniforms(5, 3, ops.arange(ops.shape(ids)[0])))
    for rows in (2, 7):
        result = compiled(ops.zeros((rows, 1), "int32"))
        np.testing.assert_array_equal(ops.convert_to_numpy(result), draw(5, 3, rows))


def test_without_a_seed_each_call_is_another() -> None:
    assert (draw(None, 3, 5) != draw(None, 3, 5)).any()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="graphs with a state are TensorFlow's")
def test_without_a_seed_each_call_of_a_graph_is_another() -> None:
    compiled = compile_function(lambda ids: draw_uniforms(None, 3, ops.arange(ops.shape(ids)[0])))
    rows = ops.zeros((5, 1), "int32")
    assert (ops.convert_to_numpy(compiled(rows)) != ops.convert_to_numpy(compiled(rows))).any()


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="what `jax.jit` cannot do")
def test_without_a_seed_jax_refuses_to_compile() -> None:
    with pytest.raises(ValueError, match="seeded random ops"):
        compile_function(lambda ids: draw_uniforms(None, 3, ops.arange(5)))(ops.zeros((5, 1), "int32"))


def bits(num_words: int, *seed: int) -> np.ndarray:
    return ops.convert_to_numpy(_random_bits(num_words, ops.convert_to_tensor(seed, "uint32")))


@only_tensorflow
@pytest.mark.parametrize("seed", [(0, 0), (1, 2), (2**32 - 1, 7)])
def test_bits_of_dropout_are_words_of_the_same_generator(seed: tuple[int, int]) -> None:
    assert bits(10, *seed).tolist() == [word(number, *seed) for number in range(10)]


@only_tensorflow
def test_graph_and_compiler_draw_the_same_bits() -> None:
    tf = pytest.importorskip("tensorflow")
    for jit_compile in (False, True):
        function = tf.function(lambda seed: _random_bits(9, seed), jit_compile=jit_compile)
        np.testing.assert_array_equal(function(tf.constant([5, 6], tf.uint32)), bits(9, 5, 6))


@only_tensorflow
def test_every_byte_comes_as_often() -> None:
    counts = np.bincount(bits(2**19, 3, 4).view(np.uint8), minlength=256)
    chi_square = np.sum((counts - counts.mean()) ** 2 / counts.mean())
    assert 255 - 4 * 22.6 < chi_square < 255 + 4 * 22.6  # the deviation of 255 degrees of freedom


@only_tensorflow
@pytest.mark.parametrize("others", [[(9, n) for n in range(64)], [(n, 9) for n in range(64)]])
def test_neighboring_seeds_have_nothing_in_common(others: list[tuple[int, int]]) -> None:
    words = np.stack([np.unpackbits(bits(128, *seed).view(np.uint8)) for seed in others])  # (64, 4096)
    correlations = np.corrcoef(words) - np.eye(len(others))
    assert np.abs(correlations).max() < 6 / 64  # six deviations


def test_first_values_are_those_of_the_initializer() -> None:
    keras.utils.set_random_seed(3)
    values = draw_normal((5, 7), "float32", 0.3)
    keras.utils.set_random_seed(3)
    wanted = keras.initializers.RandomNormal(stddev=0.3)((5, 7), "float32")
    np.testing.assert_array_equal(ops.convert_to_numpy(values), ops.convert_to_numpy(wanted))
