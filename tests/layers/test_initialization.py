import keras
import numpy as np

from helpers import array
from keras_transformer.layers.multi_head_attention import fresh_copy, matrix_initializer


def test_copies_draw_numbers_of_their_own() -> None:
    initializer = keras.initializers.get("glorot_uniform")
    np.testing.assert_array_equal(array(initializer((3, 5))), array(initializer((3, 5))))
    first, second = fresh_copy(initializer), fresh_copy(initializer)
    assert not np.allclose(array(first((3, 5))), array(second((3, 5))))


def test_a_seed_stays() -> None:
    initializer = keras.initializers.RandomNormal(seed=3)
    np.testing.assert_array_equal(array(fresh_copy(initializer)((2, 2))), array(initializer((2, 2))))


def test_functions_stay_as_they_are() -> None:
    def ones(shape: tuple[int, ...], dtype: str | None = None) -> object:
        return keras.ops.ones(shape)

    assert fresh_copy(ones) is ones


def test_a_kernel_has_the_spread_of_its_matrix() -> None:
    draw = matrix_initializer(keras.initializers.get("glorot_uniform"), 97, 64)
    kernel = array(draw((97, 8, 8), dtype="float32"))
    assert kernel.shape == (97, 8, 8)
    assert abs(kernel.std() / np.sqrt(2 / (97 + 64)) - 1) < 0.05
