"""The backend's kernel gives the numbers of the plain formula; on TensorFlow, Keras's own formula does."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention, dot_product_attention, fused_attention
from keras_transformer.layers.dot_product_attention import has_fused_kernel

B, T, S, H, K = 2, 5, 7, 4, 8
DEAD = np.ones((B, 1, T, S), bool)
DEAD[1, 0, 3] = False
MASKS = {
    "no mask": None,
    "padding": np.arange(S)[None, None, None, :] < np.array([7, 3])[:, None, None, None],
    "causal": np.tril(np.ones((1, 1, T, S), bool)),
    "a mask for each head": np.random.default_rng(3).random((B, H, T, S)) > 0.4,
    "a row that may attend to nothing": DEAD,
}


def inputs(groups: int = H, dtype: str = "float32") -> list[Any]:
    shapes = (B, T, H, K), (B, S, groups, K), (B, S, groups, K)
    return [keras.ops.cast(draw(*shape, seed=seed), dtype) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("groups", [H, 2, 1])
@pytest.mark.parametrize("mask", MASKS)
def test_equal_to_the_plain_formula(mask: str, groups: int) -> None:
    expected, _ = dot_product_attention(*inputs(groups), MASKS[mask])
    given = None if MASKS[mask] is None else keras.ops.convert_to_tensor(MASKS[mask])
    np.testing.assert_allclose(array(fused_attention(*inputs(groups), given)), array(expected), atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 0.003), ("bfloat16", 0.03)])
def test_half_precision(dtype: str, tolerance: float) -> None:
    mask = keras.ops.convert_to_tensor(DEAD)
    expected, _ = dot_product_attention(*inputs(), DEAD)
    output = fused_attention(*inputs(dtype=dtype), mask)
    assert keras.backend.standardize_dtype(output.dtype) == dtype
    np.testing.assert_allclose(array(keras.ops.cast(output, "float32")), array(expected), atol=tolerance)
    assert not array(keras.ops.cast(output, "float32"))[1, 3].any()


def test_gradients_are_those_of_the_plain_formula(input_gradient: Callable[..., Any]) -> None:
    query, key, value = inputs()
    mask, weights = map(keras.ops.convert_to_tensor, (DEAD, draw(B, T, H, K, seed=9)))
    plain = input_gradient(lambda q: dot_product_attention(q, key, value, mask)[0] * weights, array(query))
    fused = input_gradient(lambda q: fused_attention(q, key, value, mask) * weights, array(query))
    np.testing.assert_allclose(fused, plain, atol=1e-5)
    assert np.isfinite(fused).all()


def test_which_backend_has_one() -> None:
    assert has_fused_kernel(8, 8) == (keras.backend.backend() in ("jax", "torch"))
    assert not has_fused_kernel(8, 7)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which of the two formulas each attention took, where the backend has a kernel."""
    taken: list[str] = []

    def spy(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: (taken.append(name), function(*args, **options))[1]

    module = "keras_transformer.layers.multi_head_attention"
    monkeypatch.setattr(f"{module}.has_fused_kernel", lambda *widths: True)
    monkeypatch.setattr(f"{module}.fused_attention", spy("fused", fused_attention))
    monkeypatch.setattr(f"{module}.dot_product_attention", spy("plain", dot_product_attention))
    return taken


@pytest.mark.parametrize(
    ("options", "call", "expected"),
    [
        ({}, {}, "fused"),
        ({}, {"training": True}, "fused"),
        ({"dropout": 0.5}, {}, "fused"),
        ({"dropout": 0.5}, {"training": True}, "plain"),
        ({}, {"return_attention_scores": True}, "plain"),
        ({"positions": "relative"}, {}, "plain"),
        ({"positions": "rotary"}, {}, "fused"),
    ],
)
def test_what_the_call_needs_decides(calls: list[str], options: Any, call: Any, expected: str) -> None:
    layer, x = MultiHeadAttention(2, 4, **options), draw(2, 5, 8)
    layer(x, x, use_causal_mask=True, **call)
    assert calls == [expected]


@pytest.mark.usefixtures("calls")
def test_the_layer_gives_the_same_numbers_either_way() -> None:
    layer, x = MultiHeadAttention(2, 4, dropout=0.3, use_gate=True, num_key_value_heads=1), draw(2, 5, 8)
    mask = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    expected, _ = layer(x, x, padding_mask=mask, use_causal_mask=True, return_attention_scores=True)
    output = layer(x, x, padding_mask=mask, use_causal_mask=True)
    np.testing.assert_allclose(array(output), array(expected), atol=1e-5)
