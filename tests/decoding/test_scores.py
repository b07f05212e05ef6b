"""Log-probabilities and the length penalty, by hand."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import SpecialIds, length_penalty
from keras_transformer.decoding.log_probabilities import (
    LOWEST_SCORE,
    best_tokens,
    check_length_penalty,
    next_token_log_probabilities,
)


def test_log_probabilities_are_those_of_the_model() -> None:
    logits = np.log(np.array([[0.1, 0.05, 0.05, 0.3, 0.5], [0.2, 0.2, 0.2, 0.2, 0.2]], "float32"))
    result = ops.convert_to_numpy(next_token_log_probabilities(logits, SpecialIds()))
    np.testing.assert_allclose(np.exp(result[:, 3:]), [[0.3, 0.5], [0.2, 0.2]], rtol=1e-5)
    np.testing.assert_array_equal(result[:, :3], np.full((2, 3), LOWEST_SCORE, "float32"))


def test_special_ids_can_be_others() -> None:
    result = next_token_log_probabilities(np.zeros((1, 6), "float32"), SpecialIds(5, 4, 3, 0))
    np.testing.assert_array_equal(
        ops.convert_to_numpy(result)[0] == np.float32(LOWEST_SCORE), [0, 0, 0, 1, 1, 1]
    )


def test_log_probabilities_are_float32() -> None:
    logits = ops.cast(np.random.default_rng(0).normal(size=(2, 8)), "bfloat16")
    result = ops.convert_to_numpy(next_token_log_probabilities(logits, SpecialIds()))
    exact = np.exp(ops.convert_to_numpy(ops.cast(logits, "float32")))
    assert result.dtype == np.float32
    np.testing.assert_allclose(np.exp(result[:, 3:]), (exact / exact.sum(1, keepdims=True))[:, 3:], rtol=1e-5)


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [(1, 0.0, 1.0), (7, 0.0, 1.0), (1, 1.0, 1.0), (7, 1.0, 2.0), (13, 2.0, 9.0), (19, 0.5, 2.0)],
)
def test_length_penalty_by_hand(length: int, alpha: float, expected: float) -> None:
    assert float(length_penalty(length, alpha)) == pytest.approx(expected)


def test_length_penalty_of_a_tensor() -> None:
    lengths = ops.convert_to_tensor([[1, 7], [13, 19]], "int32")
    result = ops.convert_to_numpy(length_penalty(lengths, 1.0))
    np.testing.assert_allclose(result, [[1, 2], [3, 4]], rtol=1e-6)


@pytest.mark.parametrize("alpha", [-0.5, float("nan"), float("inf")])
def test_a_length_penalty_must_be_finite_and_not_negative(alpha: float) -> None:
    check_length_penalty(0.0)
    with pytest.raises(ValueError, match=rf"finite and not negative\. Received: length_penalty={alpha}\."):
        check_length_penalty(alpha)


@pytest.mark.parametrize("num_tokens", [1, 2, 5, 40])
def test_the_best_tokens_are_those_of_all(num_tokens: int) -> None:
    logits = np.random.default_rng(num_tokens).normal(size=(6, 11)).astype("float32")
    logits[0, 1] = 60.0  # a token that may not be generated takes nearly everything
    every = ops.convert_to_numpy(next_token_log_probabilities(ops.convert_to_tensor(logits), SpecialIds()))
    scores, ids = map(
        ops.convert_to_numpy, best_tokens(ops.convert_to_tensor(logits), num_tokens, SpecialIds())
    )
    expected = -np.sort(-every, axis=1)[:, :num_tokens]
    np.testing.assert_allclose(scores, expected, rtol=1e-4)
    possible = expected > LOWEST_SCORE / 2
    np.testing.assert_array_equal(ids[possible], np.argsort(-every, axis=1)[:, :num_tokens][possible])
