import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw, input_gradient
from keras_transformer.layers import dot_product_attention


def reference(*inputs: Any, mask: Any = None) -> tuple[Any, Any]:
    """Equation 1 of the paper, one query of one head at a time, in float64."""
    query, key, value = (array(each) for each in inputs)
    batch, length, heads, width = query.shape
    scores = np.zeros((batch, heads, length, key.shape[1]))
    output = np.zeros((batch, length, heads, value.shape[-1]))
    for b, h, t in np.ndindex(batch, heads, length):
        logits = key[b, :, h].astype("float64") @ query[b, t, h] / np.sqrt(width)
        allowed = np.ones(len(logits), bool) if mask is None else np.broadcast_to(mask, scores.shape)[b, h, t]
        exponentials = np.where(allowed, np.exp(logits), 0.0)
        scores[b, h, t] = exponentials / max(exponentials.sum(), 1e-300)
        output[b, t, h] = scores[b, h, t] @ value[b, :, h]
    return output, scores


def heads_of(seed: int = 1) -> list[Any]:
    """Queries, keys and values of prime sizes; the value's width differs."""
    shapes = (2, 5, 3, 7), (2, 11, 3, 7), (2, 11, 3, 13)
    return [keras.ops.convert_to_tensor(draw(*shape, seed=seed + i)) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    "mask_shape", [None, (2, 1, 1, 11), (1, 1, 5, 11), (2, 1, 5, 11), (2, 3, 5, 11), (5, 11)]
)
def test_against_the_paper(mask_shape: tuple[int, ...] | None) -> None:
    query, key, value = heads_of()
    mask = None if mask_shape is None else draw(*mask_shape, seed=9) > -0.5
    output, scores = dot_product_attention(query, key, value, mask)
    expected_output, expected_scores = reference(query, key, value, mask=mask)
    np.testing.assert_allclose(array(output), expected_output, atol=1e-5)
    np.testing.assert_allclose(array(scores), expected_scores, atol=1e-5)


def test_numbers_to_check_by_hand() -> None:
    query = np.array([[[[2.0, 0.0, 0.0, 0.0]]]], "float32")  # logits 2 * key[0] / sqrt(4)
    key = np.log(np.array([1.0, 2.0, 5.0], "float32")).reshape(1, 3, 1, 1) * np.eye(4, dtype="float32")[0]
    value = np.array([8.0, 16.0, 24.0], "float32").reshape(1, 3, 1, 1)
    output, scores = dot_product_attention(*map(keras.ops.convert_to_tensor, (query, key, value)))
    np.testing.assert_allclose(array(scores).ravel(), [1 / 8, 2 / 8, 5 / 8], rtol=1e-6)
    np.testing.assert_allclose(array(output).ravel(), [1 + 4 + 15], rtol=1e-6)


def test_a_query_without_keys_gets_zeros() -> None:
    query, key, value = heads_of()
    mask = np.ones((2, 1, 5, 11), bool)
    mask[0, 0, 3] = False
    output, scores = dot_product_attention(query, key, value, mask)
    assert np.all(array(output)[0, 3] == 0)
    assert np.all(array(scores)[0, :, 3] == 0)
    np.testing.assert_allclose(array(scores).sum(-1)[1], 1.0, atol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_gradients_of_a_query_without_keys(training: bool) -> None:
    query, key, value = heads_of()
    mask = np.zeros((2, 1, 5, 11), bool)
    mask[1] = True

    def output(query: Any) -> Any:
        return dot_product_attention(query, key, value, mask, training=training)[0]

    gradient = input_gradient(output, array(query))
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[0] == 0)
    assert np.any(gradient[1] != 0)


def test_dropout_weights_the_values_but_not_the_scores() -> None:
    query, key, value = heads_of()
    output, scores = dot_product_attention(query, key, value)
    halved, same_scores = dot_product_attention(query, key, value, dropout=lambda scores: scores * 0.5)
    np.testing.assert_allclose(array(halved), array(output) * 0.5, atol=1e-6)
    np.testing.assert_array_equal(array(same_scores), array(scores))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_softmax_is_computed_in_float32(dtype: str) -> None:
    # 4,096 equal scores: a sum in half precision would stop growing at 256 or 2,048.
    zeros = keras.ops.zeros((1, 4096, 1, 2), dtype)
    _, scores = dot_product_attention(zeros[:, :1], zeros, zeros, np.ones((1, 4096), bool))
    assert keras.backend.standardize_dtype(scores.dtype) == dtype
    np.testing.assert_array_equal(array(keras.ops.cast(scores, "float32")), 2.0**-12)


@pytest.mark.parametrize("shape", [(1, 1, 7, 5), (4, 1, 1, 5), (1, 2, 1, 5), (2, 1, 1, 6), (1, 2, 3, 1, 5)])
def test_a_mask_that_does_not_fit(shape: tuple[int, ...]) -> None:
    message = (
        "The mask must broadcast to the scores (b, h, t, s). "
        f"Received: mask of shape {shape}, scores of shape (2, 3, 1, 5)."
    )
    key = keras.ops.zeros((2, 5, 3, 4))
    with pytest.raises(ValueError, match=re.escape(message)):
        dot_product_attention(key[:, :1], key, key, np.ones(shape, bool))


def test_a_mask_that_would_be_added_is_refused() -> None:
    inputs = [keras.ops.convert_to_tensor(draw(1, 2, 1, 4))] * 3
    with pytest.raises(ValueError, match=r"`mask` must hold 1 where .* Received: -1000000000"):
        dot_product_attention(*inputs, np.array([[0.0, -1e9], [0.0, 0.0]], "float32"))


def test_masks_may_be_lists() -> None:
    x = draw(1, 2, 1, 4)
    _, scores = dot_product_attention(x, x, x, [[1, 0], [1, 1]])
    assert (array(scores)[0, 0] > 0).tolist() == [[True, False], [True, True]]


def test_integers_are_numbers() -> None:
    query, value = np.array([[[[1, 0]], [[0, 1]]]]), np.array([[[[10, 0]], [[0, 10]]]])
    received = dot_product_attention(query, query, value)[0]
    expected = dot_product_attention(*(x.astype("float32") for x in (query, query, value)))[0]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(received), keras.ops.convert_to_numpy(expected))
