"""Which tokens may follow: by hand, and against loops over random histories."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import compile_function
from keras_transformer.decoding.constraints import (
    FORCED_LOG_PROBABILITY,
    banned_tokens,
    forbid,
    is_possible,
    keep_only,
    penalize_repetition,
    repeated_ngrams,
)
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE


def tensor(values: Any, dtype: str = "float32") -> Any:
    return ops.convert_to_tensor(np.array(values, dtype))


def found(history: Any, position: Any, size: int, vocabulary_size: int) -> np.ndarray:
    return ops.convert_to_numpy(repeated_ngrams(tensor(history, "int32"), position, size, vocabulary_size))


def naive(history: np.ndarray, position: int, size: int, vocabulary_size: int) -> np.ndarray:
    """Say for each token whether it would make an n-gram come twice."""
    result = np.zeros((len(history), vocabulary_size), bool)
    for row, tokens in enumerate(history[:, :position].tolist()):
        ngrams = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
        for token in range(vocabulary_size):
            candidate = [*tokens, token][-size:]
            result[row, token] = len(candidate) == size and tuple(candidate) in ngrams
    return result


def test_a_bigram_does_not_come_twice() -> None:
    # After 4 came 5 and then 6; now 4 is the last token again.
    banned = found([[4, 5, 4, 6, 4, 0, 0]], 5, 2, 8)
    np.testing.assert_array_equal(np.flatnonzero(banned[0]), [5, 6])


def test_what_stands_behind_the_position_does_not_count() -> None:
    assert not found([[4, 5, 4, 5, 4]], 1, 2, 8).any()
    np.testing.assert_array_equal(np.flatnonzero(found([[4, 5, 4, 6, 7]], 3, 2, 8)), [5])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_repeated_ngrams_are_those_of_a_loop(size: int) -> None:
    history = np.random.default_rng(size).integers(0, 3, size=(13, 7)).astype("int32")
    if size < 5:
        assert naive(history, 7, size, 5).any(), "the rule should find something"
    for position in range(8):
        expected = naive(history, position, size, 5)
        np.testing.assert_array_equal(found(history, position, size, 5), expected)


def test_compiled_rules_give_the_same_for_every_size() -> None:
    def last_step(history: Any) -> Any:
        position = ops.shape(history)[1] - 1
        history = ops.pad(history, [[0, 0], [0, 7]])[:, :7]
        return repeated_ngrams(ops.reshape(history, (-1, 7)), position, 2, 5)

    compiled = compile_function(last_step)
    for rows, length in ((3, 4), (5, 7)):
        history = np.random.default_rng(rows).integers(0, 3, size=(rows, length)).astype("int32")
        expected = naive(history, length - 1, 2, 5)
        result = ops.convert_to_numpy(compiled(ops.convert_to_tensor(history)))
        np.testing.assert_array_equal(result, expected)


def test_the_repetition_penalty_by_hand() -> None:
    scores = penalize_repetition(tensor([[-1.0, 2.0, -3.0, 4.0]]), tensor([[0, 1, 3]], "int32"), 2, 2.0)
    # Tokens 0 and 1 were generated: multiplied where negative, divided where positive.
    np.testing.assert_allclose(ops.convert_to_numpy(scores), [[-2.0, 1.0, -3.0, 4.0]])


@pytest.mark.parametrize("penalty", [0.7, 1.3])
def test_the_repetition_penalty_is_that_of_a_loop(penalty: float) -> None:
    rng = np.random.default_rng(5)
    scores, history = rng.normal(size=(11, 7)).astype("float32"), rng.integers(0, 7, (11, 5)).astype("int32")
    for position in (0, 3, 5):
        expected = scores.copy()
        for row in range(11):
            for token in set(history[row, :position].tolist()):
                expected[row, token] *= penalty if scores[row, token] < 0 else 1 / penalty
        result = penalize_repetition(tensor(scores), tensor(history, "int32"), position, penalty)
        np.testing.assert_allclose(ops.convert_to_numpy(result), expected, rtol=1e-6)


def test_one_token_is_left_with_the_probability_of_the_model() -> None:
    kept = ops.convert_to_numpy(keep_only(tensor([[-1.0, -2.0, -np.inf]] * 2), tensor([[1], [2]], "int32")))
    expected = [[LOWEST_SCORE, -2.0, LOWEST_SCORE], [LOWEST_SCORE, LOWEST_SCORE, FORCED_LOG_PROBABILITY]]
    np.testing.assert_allclose(kept, expected)


def test_a_row_without_choice_may_end() -> None:
    scores = tensor([[-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0]])
    allowed = forbid(scores, ops.convert_to_tensor([[True, False, True], [True, True, True]]), end_id=2)
    expected = [[LOWEST_SCORE, -2.0, LOWEST_SCORE], [LOWEST_SCORE, LOWEST_SCORE, -3.0]]
    np.testing.assert_allclose(ops.convert_to_numpy(allowed), expected)


def test_banned_tokens_are_marked() -> None:
    np.testing.assert_array_equal(
        ops.convert_to_numpy(banned_tokens([1, 4], 5, 3)), [[False, True, False, False, True]]
    )


@pytest.mark.parametrize("token_id", [3, 5])
def test_tokens_that_cannot_be_banned_are_refused(token_id: int) -> None:
    with pytest.raises(
        ValueError, match=rf"Received: {token_id} in banned_token_ids, vocabulary_size=5, end=3\."
    ):
        banned_tokens([1, token_id], 5, 3)


def test_sums_with_the_lowest_score_are_not_possible() -> None:
    values = tensor([0.0, -1e5, LOWEST_SCORE, LOWEST_SCORE + 1e5, LOWEST_SCORE * 0.5, -np.inf])
    possible = ops.convert_to_numpy(is_possible(values))
    np.testing.assert_array_equal(possible, [True, True, False, False, False, False])
    assert keras.backend.standardize_dtype(possible.dtype) == "bool"
