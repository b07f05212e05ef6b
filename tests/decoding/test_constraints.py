"""Rules of a search: alone by hand, together against a loop, and compiled."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import compile_function
from keras_transformer.decoding import SpecialIds
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.log_probabilities import LOWEST_SCORE

SPECIAL, END = SpecialIds(), 3
SCORES = np.log(np.array([[0.05, 0.05, 0.1, 0.2, 0.25, 0.35]], "float32"))
LENGTHS = np.array([4, 10], "int32")


def apply(rules: Constraints, position: Any, history: Any = None, scores: np.ndarray = SCORES) -> np.ndarray:
    """Scores `(r, v)` after the rules, sources of 4 and 10 tokens, at most 12."""
    rows = len(scores)
    shortest, longest = rules.bounds(ops.convert_to_tensor(LENGTHS[:rows]), 12)
    history = history if history is None else ops.convert_to_tensor(np.array(history, "int32"))
    result = rules.apply(ops.convert_to_tensor(scores), history, position, shortest, longest, 12, SPECIAL)
    return ops.convert_to_numpy(result)


def allowed(*arguments: Any, row: int = 0, **options: Any) -> list[int]:
    return np.flatnonzero(apply(*arguments, **options)[row] > LOWEST_SCORE / 2).tolist()


def test_no_rules_change_nothing() -> None:
    rules, scores = Constraints(), ops.convert_to_tensor(SCORES)
    assert rules.apply(scores, None, 0, *rules.bounds(None, 12), 12, SPECIAL) is scores
    assert not rules.needs_history
    assert not rules.needs_source_lengths


def test_the_end_counts_for_the_shortest_length() -> None:
    rules = Constraints(min_length=3)
    assert [END in allowed(rules, position) for position in range(4)] == [False, False, True, True]


def test_the_shortest_length_follows_the_source() -> None:
    rules, scores = Constraints(min_length_ratio=0.5), np.repeat(SCORES, 2, axis=0)
    ends = [[END in allowed(rules, t, scores=scores, row=row) for t in range(6)] for row in range(2)]
    assert ends == [[False, True, True, True, True, True], [False, False, False, False, True, True]]


def test_a_row_at_its_longest_length_may_only_end() -> None:
    rules, scores = Constraints(max_length_ratio=0.5, max_length_offset=1), np.repeat(SCORES, 2, axis=0)
    np.testing.assert_allclose(apply(rules, 1, scores=scores), scores)
    at_length = apply(rules, 2, scores=scores)  # 4 * 0.5 + 1 = 3 tokens, the end included
    np.testing.assert_allclose(at_length[0], np.where(np.arange(6) == END, SCORES[0], LOWEST_SCORE))
    np.testing.assert_allclose(at_length[1], SCORES[0])
    assert allowed(rules, 5, scores=scores, row=1) == [END]


def test_the_maximum_of_the_search_forces_no_end() -> None:
    rules = Constraints(max_length_ratio=9.0)
    np.testing.assert_allclose(apply(rules, 11), SCORES)


def test_the_longest_length_wins_over_the_shortest() -> None:
    rules = Constraints(min_length=5, max_length_ratio=0.5)
    result = apply(rules, 1)
    assert np.flatnonzero(result[0] > LOWEST_SCORE / 2).tolist() == [END]
    assert result[0, END] == pytest.approx(SCORES[0, END]), "the model's probability"


def test_banned_tokens_and_repetitions() -> None:
    assert allowed(Constraints(banned_token_ids=(4,)), 0) == [0, 1, 2, 3, 5]
    rules = Constraints(no_repeat_ngram_size=2)
    assert rules.needs_history
    assert allowed(rules, 3, [[4, 5, 4, 0]]) == [0, 1, 2, 3, 4]


def test_the_penalty_of_repetitions() -> None:
    rules = Constraints(repetition_penalty=2.0)
    assert rules.needs_history
    expected = SCORES * [1, 1, 1, 1, 2, 1]
    np.testing.assert_allclose(apply(rules, 2, [[4, 4, 5, 0]]), expected, rtol=1e-6)


def test_a_row_in_which_all_is_forbidden_may_end_before_its_shortest_length() -> None:
    result = apply(Constraints(min_length=9, banned_token_ids=(0, 1, 2, 4, 5)), 0)
    np.testing.assert_allclose(result[0], np.where(np.arange(6) == END, SCORES[0], LOWEST_SCORE))


def test_rules_together_are_those_of_a_loop() -> None:
    rules = Constraints(
        min_length=3,
        max_length_ratio=0.7,
        banned_token_ids=(4,),
        no_repeat_ngram_size=2,
        repetition_penalty=1.5,
    )
    rng = np.random.default_rng(7)
    scores = np.log(rng.dirichlet(np.ones(8), size=2)).astype("float32")
    history = rng.integers(5, 8, size=(2, 12)).astype("int32")
    compiled = compile_function(lambda rows: compiled_step(rules, scores, history, rows))
    for position in range(9):
        expected = np.array([naive(scores[row], history[row, :position], row) for row in range(2)])
        np.testing.assert_allclose(apply(rules, position, history, scores), expected, rtol=1e-6)
        result = compiled(ops.convert_to_tensor([[position]], "int32"))
        np.testing.assert_allclose(ops.convert_to_numpy(result), expected, rtol=1e-6)


def compiled_step(rules: Constraints, scores: np.ndarray, history: np.ndarray, position: Any) -> Any:
    scores, history = ops.convert_to_tensor(scores), ops.convert_to_tensor(history)
    bounds = rules.bounds(ops.convert_to_tensor(LENGTHS), 12)
    return rules.apply(scores, history, position[0, 0], *bounds, 12, SPECIAL)


def naive(scores: np.ndarray, tokens: np.ndarray, row: int) -> list[float]:
    """Apply the rules of the test above to one row."""
    result, length = [], len(tokens) + 1
    for token, score in enumerate(scores):
        is_new = (*tokens[-1:], token) not in itertools.pairwise(tokens)
        is_allowed = is_new and token != 4 and (token != END or length >= 3)
        penalized = score * 1.5 if token in tokens else score
        result.append(penalized if is_allowed else LOWEST_SCORE)
    if length >= LENGTHS[row] * 7 // 10:
        return [score if token == END else LOWEST_SCORE for token, score in enumerate(scores)]
    return result


def test_bounds_belong_to_each_hypothesis() -> None:
    rules = Constraints(min_length_ratio=0.5, max_length_ratio=2.0)
    shortest, longest = rules.bounds(ops.convert_to_tensor(LENGTHS), 12, num_hypotheses=3)
    np.testing.assert_array_equal(ops.convert_to_numpy(shortest), [2, 2, 2, 5, 5, 5])
    np.testing.assert_array_equal(ops.convert_to_numpy(longest), [8, 8, 8, 12, 12, 12])
    assert Constraints(min_length=2).bounds(None, 12) == ((), ())


def test_rules_can_be_written_as_json() -> None:
    rules = Constraints(min_length=2, max_length_ratio=1.5, banned_token_ids=[7, 9])
    assert Constraints(**json.loads(json.dumps(rules.to_dict()))) == rules
    assert hash(rules) == hash(Constraints(**rules.to_dict()))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"min_length": 1.5}, TypeError, "min_length=1.5"),
        ({"min_length": -1}, ValueError, "min_length=-1"),
        ({"min_length_ratio": "1"}, TypeError, "min_length_ratio='1'"),
        ({"max_length_ratio": 0}, ValueError, "max_length_ratio=0"),
        ({"max_length_ratio": 1, "max_length_offset": -1}, ValueError, "max_length_offset=-1"),
        ({"max_length_offset": 3}, ValueError, "max_length_offset=3, max_length_ratio=None"),
        (
            {"min_length_ratio": 2, "max_length_ratio": 1},
            ValueError,
            "min_length_ratio=2, max_length_ratio=1",
        ),
        ({"banned_token_ids": (4, -7)}, ValueError, "banned_token_ids=-7"),
        ({"banned_token_ids": ("4",)}, TypeError, "banned_token_ids='4'"),
        ({"no_repeat_ngram_size": True}, TypeError, "no_repeat_ngram_size=True"),
        ({"repetition_penalty": 0.0}, ValueError, "repetition_penalty=0.0"),
    ],
)
def test_wrong_rules_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"Received: {message}"):
        Constraints(**options)


def test_what_a_rule_needs_must_be_there() -> None:
    with pytest.raises(ValueError, match=r"`history` is needed .* Received: history=None, .*penalty=1\.5"):
        apply(Constraints(repetition_penalty=1.5), 0)
    with pytest.raises(ValueError, match=r"`source_lengths` is needed .* Received: None, .*ratio=0\.5"):
        Constraints(min_length_ratio=0.5).bounds(None, 12)
    with pytest.raises(ValueError, match=r"Received: min_length=13, max_length=12\."):
        Constraints(min_length=13).bounds(None, 12)
