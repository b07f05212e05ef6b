"""The products of matrices give what the einsums of the paper's shapes give."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.head_projection import merge_heads, split_heads

RNG = np.random.default_rng(0)
INPUTS, HEADS = RNG.normal(size=(2, 5, 7)), RNG.normal(size=(2, 5, 3, 11))
TO_HEADS, FROM_HEADS = RNG.normal(size=(7, 3, 11)), RNG.normal(size=(3, 11, 7))


def tensor(values: np.ndarray) -> object:
    return ops.convert_to_tensor(values.astype("float32"))


@pytest.mark.parametrize("bias", [None, RNG.normal(size=(3, 11))])
def test_split_heads_is_the_einsum(bias: np.ndarray | None) -> None:
    wanted = np.einsum("btd,dhk->bthk", INPUTS, TO_HEADS) + (0 if bias is None else bias)
    result = split_heads(tensor(INPUTS), tensor(TO_HEADS), None if bias is None else tensor(bias))
    np.testing.assert_allclose(ops.convert_to_numpy(result), wanted, atol=1e-5)


@pytest.mark.parametrize("bias", [None, RNG.normal(size=7)])
def test_merge_heads_is_the_einsum(bias: np.ndarray | None) -> None:
    wanted = np.einsum("bthk,hkd->btd", HEADS, FROM_HEADS) + (0 if bias is None else bias)
    result = merge_heads(tensor(HEADS), tensor(FROM_HEADS), None if bias is None else tensor(bias))
    np.testing.assert_allclose(ops.convert_to_numpy(result), wanted, atol=1e-5)
