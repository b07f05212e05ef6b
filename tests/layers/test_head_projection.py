"""The products of matrices give what the einsums of the paper's shapes give."""

from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.multi_head_attention import LinearMap, merge_heads, split_heads

RNG = np.random.default_rng(0)
INPUTS, HEADS = RNG.normal(size=(2, 5, 7)), RNG.normal(size=(2, 5, 3, 11))
TO_HEADS, FROM_HEADS = RNG.normal(size=(7, 3, 11)), RNG.normal(size=(3, 11, 7))


def tensor(values: np.ndarray) -> Any:
    return ops.convert_to_tensor(values.astype("float32"))


@pytest.mark.parametrize("bias", [None, RNG.normal(size=(3, 11))])
def test_split_heads_is_the_einsum(bias: np.ndarray | None) -> None:
    wanted = np.einsum("btd,dhk->bthk", INPUTS, TO_HEADS) + (0 if bias is None else bias)
    to_heads = LinearMap.of(tensor(TO_HEADS), None if bias is None else tensor(bias), 1, "float32")
    result = split_heads(tensor(INPUTS), to_heads, 3)
    np.testing.assert_allclose(ops.convert_to_numpy(result), wanted, atol=1e-5)


@pytest.mark.parametrize("bias", [None, RNG.normal(size=7)])
def test_merge_heads_is_the_einsum(bias: np.ndarray | None) -> None:
    wanted = np.einsum("bthk,hkd->btd", HEADS, FROM_HEADS) + (0 if bias is None else bias)
    from_heads = LinearMap.of(tensor(FROM_HEADS), None if bias is None else tensor(bias), 2, "float32")
    result = merge_heads(tensor(HEADS), from_heads, (7,))
    np.testing.assert_allclose(ops.convert_to_numpy(result), wanted, atol=1e-5)
