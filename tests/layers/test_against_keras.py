"""`MultiHeadAttention` gives the numbers of `keras.layers.MultiHeadAttention` with the same weights."""

from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.layers import MultiHeadAttention

array = keras.ops.convert_to_numpy

QUERY, SELF, NARROW, WIDE = (2, 5, 12), (2, 5, 12), (2, 7, 11), (2, 7, 13)
INPUTS = {
    "self": (SELF, SELF),
    "cross": (QUERY, WIDE),
    "key is not value": (QUERY, WIDE, NARROW),
}
# Causal for as many keys as queries: otherwise our queries are the last positions, those of Keras the first.
CALLS = [*((name, False) for name in INPUTS), ("self", True)]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"num_heads": 3, "key_dim": 4},
    "no bias": {"num_heads": 3, "key_dim": 4, "use_bias": False},
    "widths": {"num_heads": 2, "key_dim": 5, "value_dim": 7, "output_shape": 11},
    "dropout": {"num_heads": 3, "key_dim": 4, "dropout": 0.2},
}


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def twins(options: dict[str, Any], inputs: list[Any]) -> tuple[Any, Any]:
    """Ours and theirs with the same random weights."""
    ours, theirs = MultiHeadAttention(**options), keras.layers.MultiHeadAttention(**options)
    ours(*inputs)
    theirs(*inputs, return_attention_scores=True)  # its fused path on JAX knows one width only
    theirs.set_weights([0.5 * draw(*w.shape, seed=i) for i, w in enumerate(theirs.get_weights())])
    weights = theirs.get_weights()  # kernel and bias of query, key, value and output, in turn
    step = 2 if ours.use_bias else 1
    ours.set_weights([*weights[0::step], *(weights[1::2] if ours.use_bias else ())])
    return ours, theirs


def attention_mask(inputs: list[Any]) -> Any:
    mask = draw(inputs[0].shape[0], inputs[0].shape[1], inputs[1].shape[1], seed=9) > 0
    mask[..., 0] = True  # Keras gives rows with nothing to attend to another meaning
    return mask


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("shapes", "causal"), CALLS)
def test_same_numbers(shapes: str, options: str, causal: bool, masked: bool) -> None:
    inputs = [draw(*shape, seed=number) for number, shape in enumerate(INPUTS[shapes])]
    ours, theirs = twins(OPTIONS[options], inputs)
    call = {"attention_mask": attention_mask(inputs) if masked else None, "use_causal_mask": causal}
    output, scores = ours(*inputs, **call, return_attention_scores=True)
    expected_output, expected_scores = theirs(*inputs, **call, return_attention_scores=True)
    np.testing.assert_allclose(array(output), array(expected_output), atol=1e-5)
    np.testing.assert_allclose(array(scores), array(expected_scores), atol=1e-5)
    np.testing.assert_allclose(array(ours(*inputs, **call)), array(expected_output), atol=1e-5)


def test_same_numbers_in_training() -> None:
    inputs = [draw(2, 5, 12), draw(2, 7, 13)]
    ours, theirs = twins(OPTIONS["plain"], inputs)
    mask = attention_mask(inputs)
    output = ours(*inputs, attention_mask=mask, training=True)
    expected = theirs(*inputs, attention_mask=mask, training=True)
    np.testing.assert_allclose(array(output), array(expected), atol=1e-5)


def test_same_numbers_from_an_implicit_mask() -> None:
    x = keras.layers.Embedding(11, 12, mask_zero=True)(np.array([[3, 5, 0], [2, 2, 2]]))
    ours, theirs = twins(OPTIONS["plain"], [x, x])
    # Keras lets padded queries attend to nothing, which it then computes in its own way.
    np.testing.assert_allclose(array(ours(x, x))[:, :2], array(theirs(x, x))[:, :2], atol=1e-5)
