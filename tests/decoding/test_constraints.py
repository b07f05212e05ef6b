"""Rules of a search: alone by hand, together against a loop, and compiled."""

import dataclasses
import itertools
import json
from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer._backend import compile_function
from keras_transformer.decoding import Constraints
from keras_transformer.types import SpecialIds

FORBIDDEN, FORCED = -1e30, -100.0
SPECIAL, END = SpecialIds(), 3
SCORES = np.log(np.array([[0.05, 0.05, 0.1, 0.2, 0.25, 0.35]], "float32"))
LENGTHS = np.array([4, 10], "int32")


def apply(
    rules: Constraints,
    position: Any,
    history: Any = None,
    scores: np.ndarray = SCORES,
    prefix_ids: Any = None,
    special_ids: SpecialIds = SPECIAL,
) -> np.ndarray:
    """Scores `(r, v)` after the rules, sources of 4 and 10 tokens, at most 12."""
    lengths = np.resize(LENGTHS, len(scores))
    prefix_ids = None if prefix_ids is None else np.array(prefix_ids, "int32")
    limits = rules.limits(12, ops.convert_to_tensor(lengths), prefix_ids)
    history = np.zeros((len(scores), 12)) if history is None else history
    history = ops.convert_to_tensor(np.array(history, "int32"))
    result = rules.apply(ops.convert_to_tensor(scores), history[:, None], position, limits, 12, special_ids)
    return ops.convert_to_numpy(result)


def allowed(*arguments: Any, row: int = 0, **options: Any) -> list[int]:
    return np.flatnonzero(apply(*arguments, **options)[row] > FORBIDDEN / 2).tolist()


def forced(token: int, scores: np.ndarray = SCORES[0]) -> np.ndarray:
    """The scores of a row that must take one token."""
    return np.where(np.arange(6) == token, np.maximum(scores, FORCED), FORBIDDEN).astype("float32")


def test_no_rules_change_nothing() -> None:
    rules, scores = Constraints(), ops.convert_to_tensor(SCORES)
    assert rules.apply(scores, None, 0, rules.limits(12), 12, SPECIAL) is scores


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
    np.testing.assert_allclose(at_length[0], forced(END))
    np.testing.assert_allclose(at_length[1], SCORES[0])
    assert allowed(rules, 5, scores=scores, row=1) == [END]


def test_the_maximum_of_the_search_forces_no_end() -> None:
    rules = Constraints(max_length_ratio=9.0)
    np.testing.assert_allclose(apply(rules, 11), SCORES)


def test_the_longest_length_wins_over_the_shortest() -> None:
    rules = Constraints(min_length=5, max_length_ratio=0.5)
    result = apply(rules, 1)
    assert np.flatnonzero(result[0] > FORBIDDEN / 2).tolist() == [END]
    assert result[0, END] == pytest.approx(SCORES[0, END]), "the model's probability"


def test_banned_tokens_and_repetitions() -> None:
    assert allowed(Constraints(banned_token_ids=(4,)), 0) == [0, 1, 2, 3, 5]
    rules = Constraints(no_repeat_ngram_size=2)
    assert allowed(rules, 3, [[4, 5, 4, 0]]) == [0, 1, 2, 3, 4]


def test_the_penalty_of_repetitions() -> None:
    rules = Constraints(repetition_penalty=2.0)
    expected = SCORES * [1, 1, 1, 1, 2, 1]
    np.testing.assert_allclose(apply(rules, 2, [[4, 4, 5, 0]]), expected, rtol=1e-6)


def test_a_row_in_which_all_is_forbidden_may_end_before_its_shortest_length() -> None:
    result = apply(Constraints(min_length=9, banned_token_ids=(0, 1, 2, 4, 5)), 0)
    np.testing.assert_allclose(result[0], forced(END))


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
    scores, history = ops.convert_to_tensor(scores), ops.convert_to_tensor(history)[:, None]
    limits = rules.limits(12, ops.convert_to_tensor(LENGTHS))
    return rules.apply(scores, history, position[0, 0], limits, 12, SPECIAL)


def naive(scores: np.ndarray, tokens: np.ndarray, row: int) -> list[float]:
    """Apply the rules of the test above to one row."""
    result, length = [], len(tokens) + 1
    for token, score in enumerate(scores):
        is_new = (*tokens[-1:], token) not in itertools.pairwise(tokens)
        is_allowed = is_new and token != 4 and (token != END or length >= 3)
        penalized = score * 1.5 if token in tokens else score
        result.append(penalized if is_allowed else FORBIDDEN)
    if length >= LENGTHS[row] * 7 // 10:
        return [score if token == END else FORBIDDEN for token, score in enumerate(scores)]
    return result


@pytest.mark.parametrize(
    ("options", "shortest", "longest"),
    [
        ({"min_length": 3, "min_length_ratio": 0.001}, [3, 3, 3, 3, 3], [30] * 5),
        ({"min_length_ratio": 0.5}, [1, 1, 3, 5, 20], [30] * 5),  # 2.5 is rounded up
        ({"min_length": 4, "min_length_ratio": 0.5}, [4, 4, 4, 5, 20], [30] * 5),
        ({"min_length_ratio": 1.1}, [2, 3, 6, 11, 44], [30] * 5),  # 1.1 * 10 is 11, though not in float32
        (
            {"max_length_ratio": 0.5},
            [0] * 5,
            [1, 1, 2, 5, 20],
        ),  # 2.5 is rounded down, and one token is allowed
        ({"max_length_ratio": 1.5, "max_length_offset": 3}, [0] * 5, [4, 6, 10, 18, 30]),
        ({"max_length_ratio": 0.7}, [0] * 5, [1, 1, 3, 7, 28]),  # 0.7 * 10 is 7, though not in float32
    ],
)
def test_lengths_follow_the_source(options: Any, shortest: list[int], longest: list[int]) -> None:
    limits = Constraints(**options).limits(30, ops.convert_to_tensor(np.array([1, 2, 5, 10, 40], "int32")))
    np.testing.assert_array_equal(ops.convert_to_numpy(limits.shortest), shortest)
    np.testing.assert_array_equal(ops.convert_to_numpy(limits.longest), longest)
    assert ops.convert_to_numpy(limits.longest).dtype == np.int32


def test_limits_are_those_of_each_source() -> None:
    limits = Constraints(max_length_ratio=2.0).limits(
        12, ops.convert_to_tensor(LENGTHS), np.array([[1], [2]])
    )
    selected = limits.each(lambda limit: ops.take(limit, [1, 0, 1], axis=0))
    np.testing.assert_array_equal(ops.convert_to_numpy(selected.longest), [12, 8, 12])
    np.testing.assert_array_equal(ops.convert_to_numpy(selected.prefix_ids), [[2], [1], [2]])
    assert set(Constraints(min_length=2).limits(12).each(ops.sum)) == {()}


def test_rules_can_be_written_as_json() -> None:
    rules = Constraints(min_length=2, max_length_ratio=1.5, banned_token_ids=[7, 9])
    again = Constraints(**json.loads(json.dumps(dataclasses.asdict(rules))))
    assert again == rules
    assert hash(again) == hash(rules)


PREFIXES = [[4, 2], [2, 0], [0, 0]]


@pytest.mark.parametrize(
    ("position", "tokens"), [(0, [4, 2, None]), (1, [2, None, None]), (2, [None] * 3), (7, [None] * 3)]
)
def test_each_row_follows_its_own_prefix(position: int, tokens: list[int | None]) -> None:
    expected = [SCORES[0] if token is None else forced(token) for token in tokens]
    scores = np.repeat(SCORES, 3, axis=0)
    np.testing.assert_allclose(apply(Constraints(), position, scores=scores, prefix_ids=PREFIXES), expected)
    rules = Constraints(banned_token_ids=(4,))
    banned = [np.where(np.arange(6) == 4, FORBIDDEN, SCORES[0]) if t is None else forced(t) for t in tokens]
    np.testing.assert_allclose(apply(rules, position, scores=scores, prefix_ids=PREFIXES), banned)


def test_no_prefix_changes_nothing() -> None:
    np.testing.assert_array_equal(apply(Constraints(), 0, prefix_ids=np.zeros((1, 0))), SCORES)


def test_the_padding_of_a_prefix_can_be_another_token() -> None:
    scores = np.repeat(SCORES, 3, axis=0)
    result = apply(Constraints(), 0, None, scores, [[0], [1], [2]], SpecialIds(pad=1))
    np.testing.assert_allclose(result, [forced(0), SCORES[0], forced(2)])


def test_a_token_that_the_model_excludes_has_a_score_all_the_same() -> None:
    scores = np.repeat(SCORES, 2, axis=0)
    scores[0, 4], scores[1, 2] = FORBIDDEN, -np.inf
    result = apply(Constraints(), 0, scores=scores, prefix_ids=[[4], [2]])
    np.testing.assert_array_equal(result.argmax(axis=1), [4, 2])
    np.testing.assert_allclose(result.max(axis=1), FORCED)


def test_prefixes_of_another_rank_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`prefix_ids` must have the shape \(b, p\).*Received: shape=\(3,\)\."
    ):
        apply(Constraints(), 0, prefix_ids=[1, 2, 3])


def repeats(history: np.ndarray, position: int, size: int) -> np.ndarray:
    """Say for each of 5 tokens whether it would make an n-gram come twice, bool `(r, 5)`."""
    result = np.zeros((len(history), 5), bool)
    for row, tokens in enumerate(history[:, :position].tolist()):
        ngrams = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
        for token in range(5):
            candidate = [*tokens, token][-size:]
            result[row, token] = len(candidate) == size and tuple(candidate) in ngrams
    return result


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_repeated_ngrams_are_those_of_a_loop(size: int) -> None:
    history = np.random.default_rng(size).integers(0, 3, size=(13, 7)).astype("int32")
    scores, rules = np.zeros((13, 5), "float32"), Constraints(no_repeat_ngram_size=size)
    if size < 5:
        assert repeats(history, 7, size).any(), "the rule should find something"
    for position in range(8):
        found = apply(rules, position, history, scores) == np.float32(FORBIDDEN)
        np.testing.assert_array_equal(found, repeats(history, position, size))


@pytest.mark.parametrize("penalty", [0.7, 1.3])
def test_the_repetition_penalty_is_that_of_a_loop(penalty: float) -> None:
    rng = np.random.default_rng(5)
    scores = -np.abs(rng.normal(size=(11, 7))).astype("float32")
    history = rng.integers(0, 7, (11, 5)).astype("int32")
    for position in (0, 3, 5):
        expected = scores.copy()
        for row in range(11):
            for token in set(history[row, :position].tolist()):
                expected[row, token] *= penalty
        result = apply(Constraints(repetition_penalty=penalty), position, history, scores)
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_banned_sequences_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(6)
    scores = np.log(rng.dirichlet(np.ones(7), size=40)).astype("float32")
    history = rng.integers(4, 7, (40, 5)).astype("int32")
    sequences = ((4, 5), (5, 4), (4, 5, 6), (6, 6, 6, 4))
    num_banned = 0
    for position in range(6):
        expected = scores.copy()
        for row, sequence in itertools.product(range(40), sequences):
            before = history[row, :position][-len(sequence) + 1 :]
            if tuple(before) == sequence[:-1]:
                expected[row, sequence[-1]] = FORBIDDEN
        result = apply(Constraints(banned_sequences=sequences), position, history, scores)
        np.testing.assert_array_equal(result, expected)
        num_banned += np.count_nonzero(expected == np.float32(FORBIDDEN))
    assert num_banned > 40


def test_banned_first_tokens() -> None:
    rules = Constraints(first_token_ids=(4,), banned_first_token_ids=(END, 5))
    assert [allowed(rules, position) for position in (0, 1)] == [list(range(6)), [0, 1, 2, 4]]
    assert allowed(rules, 2) == list(range(6))


def test_forced_tokens_have_all_probability() -> None:
    rules = Constraints(first_token_ids=(4, 1), force_end=True)
    scores = ops.convert_to_tensor(np.repeat(SCORES, 2, axis=0))
    lengths = ops.convert_to_tensor(np.array([3, 5], "int32"))
    taken = [
        np.exp(ops.convert_to_numpy(rules.force(scores, position, lengths, END))) for position in range(5)
    ]
    one = np.eye(6)
    np.testing.assert_allclose(taken[0], one[[4, 4]])
    np.testing.assert_allclose(taken[1], one[[1, 1]])
    np.testing.assert_allclose(taken[2], [one[END], np.exp(SCORES[0])], rtol=1e-6)
    np.testing.assert_allclose(taken[3], [one[END], np.exp(SCORES[0])], rtol=1e-6)
    np.testing.assert_allclose(taken[4], one[[END, END]])


@pytest.mark.parametrize(
    "options",
    [{"banned_sequences": ((1, 6),)}, {"banned_first_token_ids": (1, 6)}],
)
def test_tokens_outside_the_vocabulary_are_refused(options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(ValueError, match=rf"Received: 6 in {name}, vocabulary_size=6"):
        apply(Constraints(**options), 0)
    with pytest.raises(ValueError, match=r"Received: 6 in first_token_ids, vocabulary_size=6"):
        Constraints(first_token_ids=(6,)).force(ops.convert_to_tensor(SCORES), 0, 5, END)


@pytest.mark.parametrize("token_id", [3, 6])
def test_tokens_that_cannot_be_banned_are_refused(token_id: int) -> None:
    message = rf"Received: {token_id} in banned_token_ids, vocabulary_size=6, end=3\."
    with pytest.raises(ValueError, match=message):
        apply(Constraints(banned_token_ids=(1, token_id)), 0)


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
        ({"banned_sequences": ((4,),)}, ValueError, r"banned_sequences=\(\(4,\),\)"),
        ({"banned_sequences": ((4, -5),)}, ValueError, "banned_sequences=-5"),
        ({"first_token_ids": (4.5,)}, TypeError, "first_token_ids=4.5"),
    ],
)
def test_wrong_rules_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"Received: {message}"):
        Constraints(**options)


def test_a_length_of_the_source_needs_a_source() -> None:
    with pytest.raises(ValueError, match=r"Length ratios need sources\. Received: min_length_ratio=0\.5"):
        Constraints(min_length_ratio=0.5).limits(12)


def test_a_maximum_below_the_minimum_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Received: min_length=13, max_length=12\."):
        Constraints(min_length=13).limits(12)
