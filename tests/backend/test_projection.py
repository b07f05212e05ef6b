"""The product of matrices that stands in for an einsum, against it."""

from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer._backend.projection import project

SIZES = {"b": 2, "t": 5, "s": 3, "d": 6, "h": 3, "g": 1, "k": 4, "e": 7}


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("equation", ["btd,dhk->bthk", "bsd,dgk->bsgk", "bthk,hkd->btd", "bthk,hkde->btde"])
def test_it_is_the_einsum(equation: str, has_bias: bool) -> None:
    inputs, kernel, outputs = (
        [SIZES[axis] for axis in axes] for axes in equation.replace("->", ",").split(",")
    )
    x, matrix = draw(*inputs), draw(*kernel, seed=1)
    bias = draw(*outputs[2:], seed=2) if has_bias else None
    expected = np.einsum(equation, x, matrix) + (0 if bias is None else bias)
    found = project(equation, *(keras.ops.convert_to_tensor(each) for each in (x, matrix)), bias)
    np.testing.assert_allclose(array(found), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 0, 6), (0, 5, 6)])
def test_of_nothing(shape: tuple[int, ...]) -> None:
    outputs: Any = project("btd,dhk->bthk", keras.ops.zeros(shape), keras.ops.ones((6, 3, 4)))
    assert tuple(outputs.shape) == (*shape[:2], 3, 4)
