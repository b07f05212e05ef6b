"""Prefixes of different lengths, by hand."""

from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import compile_function
from keras_transformer.decoding import SpecialIds
from keras_transformer.decoding.constraints import FORCED_LOG_PROBABILITY, force_prefix
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE

SCORES = np.log(np.array([[0.1, 0.2, 0.3, 0.15, 0.25]] * 3, "float32"))
PREFIXES = np.array([[4, 2], [2, 0], [0, 0]], "int32")


def forced(
    position: Any, prefixes: np.ndarray = PREFIXES, scores: np.ndarray = SCORES, **options: Any
) -> Any:
    result = force_prefix(ops.convert_to_tensor(scores), ops.convert_to_tensor(prefixes), position, **options)
    return ops.convert_to_numpy(result)


def only(token: int, scores: np.ndarray = SCORES) -> np.ndarray:
    return np.where(np.arange(5) == token, scores[0], LOWEST_SCORE).astype("float32")


@pytest.mark.parametrize(
    ("position", "tokens"), [(0, [4, 2, None]), (1, [2, None, None]), (2, [None] * 3), (7, [None] * 3)]
)
def test_each_row_follows_its_own_prefix(position: int, tokens: list[int | None]) -> None:
    expected = [SCORES[0] if token is None else only(token) for token in tokens]
    np.testing.assert_allclose(forced(position), expected)


def test_no_prefix_changes_nothing() -> None:
    np.testing.assert_array_equal(forced(0, np.zeros((3, 0), "int32")), SCORES)


def test_padding_can_be_another_token() -> None:
    scores = forced(0, np.array([[0], [1], [2]], "int32"), special_ids=SpecialIds(pad=1))
    np.testing.assert_allclose(scores, [only(0), SCORES[0], only(2)])


def test_a_prefix_has_the_models_scores_whatever_else_is_forbidden() -> None:
    allowed = np.full_like(SCORES, LOWEST_SCORE)
    allowed[:, 1] = -0.5
    result = forced(1, allowed=ops.convert_to_tensor(allowed))
    np.testing.assert_allclose(result, [only(2), allowed[1], allowed[2]])
    np.testing.assert_array_equal(forced(0, np.zeros((3, 0), "int32"), allowed=allowed), allowed)


def test_a_token_that_the_model_excludes_has_a_score_all_the_same() -> None:
    scores = SCORES.copy()
    scores[0, 4], scores[1, 2] = LOWEST_SCORE, -np.inf
    result = forced(0, scores=scores)
    assert result[0].argmax() == 4
    assert result[1].argmax() == 2
    np.testing.assert_allclose(result[:2].max(axis=1), FORCED_LOG_PROBABILITY)


def test_compiled_code_gives_the_same_at_each_position() -> None:
    def step(position: Any) -> Any:
        return force_prefix(ops.convert_to_tensor(SCORES), ops.convert_to_tensor(PREFIXES), position[0, 0])

    compiled = compile_function(step)
    for position in range(3):
        result = compiled(ops.convert_to_tensor([[position]], "int32"))
        np.testing.assert_allclose(ops.convert_to_numpy(result), forced(position))


def test_prefixes_of_another_rank_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`prefix_ids` must have shape \(r, p\).*Received: shape=\(3,\)\."):
        forced(0, np.zeros((3,), "int32"))
