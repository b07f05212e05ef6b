"""Beam search over scripted models: by hand, and against every possible sequence."""

import dataclasses
import itertools
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from helpers import BeamSearch, GreedySearch
from keras_transformer.decoding import Constraints, generate
from keras_transformer.types import SPECIAL_IDS, SpecialIds

NO_SEQUENCE = -1e30
ONE_SOURCE = np.zeros((1, 1), "int32")

# A vocabulary of 4: nothing (and the start), the end, and two words.
FOUR_IDS = SpecialIds(pad=0, unknown=0, start=0, end=1)


def decode(model: Any, search: Any, max_length: int, source: np.ndarray = ONE_SOURCE) -> Any:
    """Token ids `(b, n, T)` and scores `(b, n)`."""
    result = generate(model, ops.convert_to_tensor(source), search, max_length)
    token_ids, scores = map(ops.convert_to_numpy, result)
    assert token_ids.shape == (len(source), search.num_outputs, max_length)
    assert scores.shape == (len(source), search.num_outputs)
    return token_ids, scores


def plain_beam(
    model: Any, source: int, size: int, max_length: int, alpha: float, early_stopping: bool | str
) -> list[tuple[float, list[int]]]:
    """Beam search of transformers over ids from 1, which is the end: scores and tokens, best first."""
    running: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, max_length + 1):
        found = [[*tokens, token] for _, tokens in running for token in range(1, model.output.shape[1])]
        ranked = sorted(((model.log_probability(source, [0, *each]), each) for each in found), reverse=True)
        ended = [(score, each) for score, each in ranked[:size] if each[-1] == 1 or length == max_length]
        finished = sorted(finished + [(score / length**alpha, each) for score, each in ended], reverse=True)
        finished, running = finished[:size], [option for option in ranked if option[1][-1] != 1][:size]
        bound = running[0][0] / (max_length if early_stopping == "never" else length) ** alpha
        if len(finished) == size and (early_stopping is True or bound <= finished[-1][0]):
            break
    return finished


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize(("size", "alpha"), [(2, 1.0), (3, 0.0), (3, 2.0), (4, 0.6)])
def test_lengths_stops_and_cut_off_hypotheses_of_transformers(
    recurrent_model: Any, size: int, alpha: float, early_stopping: Any
) -> None:
    model, sources = recurrent_model(12, 6, 1), np.arange(12, dtype="int32")[:, None]
    search = BeamSearch(
        size,
        length_penalty=alpha,
        length_normalization="length",
        early_stopping=early_stopping,
        cut_off_competes=True,
        special_ids=FOUR_IDS,
    )
    token_ids, scores = decode(model, search, 6, sources)
    one = decode(model, dataclasses.replace(search, num_hypotheses=1), 6, sources)[0]
    for source in range(12):
        expected = plain_beam(model, source, size, 6, alpha, early_stopping)
        np.testing.assert_allclose(scores[source], [score for score, _ in expected], rtol=1e-4)
        tokens = [each + [0] * (6 - len(each)) for _, each in expected]
        np.testing.assert_array_equal(token_ids[source], tokens)
        # With fewer wanted, a search may stop earlier, but the best stays the best.
        np.testing.assert_array_equal(one[source, 0], tokens[0])


def test_the_three_stops_differ(recurrent_model: Any) -> None:
    model = recurrent_model(12, 6, 1)
    found = [
        [plain_beam(model, source, 3, 6, 2.0, stopping) for source in range(12)]
        for stopping in (True, False, "never")
    ]
    assert found[0] != found[1]
    assert found[1] != found[2]


def test_every_hypothesis_competes_by_the_power_of_its_length(recurrent_model: Any) -> None:
    options: Any = {"length_normalization": "length", "special_ids": FOUR_IDS, "cut_off_competes": True}
    model = recurrent_model(1, 4, 0)
    token_ids, scores = decode(model, BeamSearch(32, length_penalty=1.5, **options), 4)
    expected = sorted(
        (score / sum(token > 0 for token in tokens) ** 1.5, tokens)
        for score, tokens in every_hypothesis(model, 0, 4, 0.0)
    )[::-1]
    np.testing.assert_allclose(scores[0, :31], [score for score, _ in expected], rtol=1e-4)
    np.testing.assert_array_equal(token_ids[0, :31], [tokens for _, tokens in expected])


def test_first_tokens_are_not_generated(recurrent_model: Any) -> None:
    constraints = Constraints(first_token_ids=(3, 2))
    search = BeamSearch(
        32,
        length_penalty=1.5,
        length_normalization="generated_length",
        special_ids=FOUR_IDS,
        constraints=constraints,
        cut_off_competes=True,
    )
    token_ids, scores = decode(recurrent_model(1, 4, 0), search, 6)
    plain = dataclasses.replace(search, length_penalty=0.0)
    found = (each[0, :31] for each in decode(recurrent_model(1, 4, 0), plain, 6))
    expected = sorted(
        (
            (total / max(sum(tokens > 0) - 2, 1) ** 1.5, tokens.tolist())
            for tokens, total in zip(*found, strict=True)
        ),
        reverse=True,
    )
    assert token_ids[0, 0, :2].tolist() == [3, 2]
    np.testing.assert_allclose(scores[0, :31], [score for score, _ in expected], rtol=1e-4)
    np.testing.assert_array_equal(token_ids[0, :31], [tokens for _, tokens in expected])


def every_hypothesis(model: Any, source: int, max_length: int, alpha: float) -> list[tuple[float, list[int]]]:
    """Score and padded tokens of every sequence, best first, those that ended before the others."""
    ended: list[tuple[float, list[int]]] = []
    cut_off: list[tuple[float, list[int]]] = []
    for length in range(max_length + 1):
        for words in itertools.product((2, 3), repeat=length):
            tokens = [*words, 1] if length < max_length else list(words)
            score = model.log_probability(source, [0, *tokens]) / ((5 + len(tokens)) / 6) ** alpha
            padded = tokens + [0] * (max_length - len(tokens))
            (ended if length < max_length else cut_off).append((score, padded))
    return sorted(ended, reverse=True) + sorted(cut_off, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_every_sequence_in_order(recurrent_model: Any, seed: int, alpha: float) -> None:
    model = recurrent_model(3, 4, seed)
    search = BeamSearch(32, length_penalty=alpha, special_ids=FOUR_IDS)
    sources = np.array([[2], [0], [1]], "int32")
    token_ids, scores = decode(model, search, 4, sources)
    for row, source in enumerate([2, 0, 1]):
        expected = every_hypothesis(model, source, 4, alpha)
        assert len(expected) == 31
        np.testing.assert_allclose(scores[row, :31], [score for score, _ in expected], rtol=1e-4)
        np.testing.assert_array_equal(token_ids[row, :31], [tokens for _, tokens in expected])


def test_places_without_a_sequence_are_padding(recurrent_model: Any) -> None:
    token_ids, scores = decode(recurrent_model(1, 4, 0), BeamSearch(33, special_ids=FOUR_IDS), 4)
    np.testing.assert_array_equal(token_ids[0, 31:], np.zeros((2, 4)))
    np.testing.assert_array_equal(scores[0, 31:], np.full(2, NO_SEQUENCE, "float32"))


@pytest.mark.parametrize(("beam_size", "alpha"), [(1, 1.0), (2, 0.0), (3, 1.0), (5, 2.0)])
def test_a_narrow_beam_gives_scores_of_the_model(recurrent_model: Any, beam_size: int, alpha: float) -> None:
    model = recurrent_model(4, 4, 7)
    search = BeamSearch(beam_size, length_penalty=alpha, special_ids=FOUR_IDS)
    token_ids, scores = decode(model, search, 4, np.arange(4, dtype="int32")[:, None])
    for source in range(4):
        expected = {tuple(tokens): score for score, tokens in every_hypothesis(model, source, 4, alpha)}
        found = [tuple(tokens) for tokens in token_ids[source].tolist()]
        assert len(set(found)) == beam_size
        np.testing.assert_allclose(scores[source], [expected[tokens] for tokens in found], rtol=1e-4)


def test_the_better_finished_hypothesis_wins(table_model: Any) -> None:
    # A search that extends what has ended returns the other one: log p -0.92 instead of -0.51.
    model = table_model({2: {3: 0.6, 4: 0.4}, 4: {3: 1.0}, 3: {4: 0.5, 3: 0.5}}, 5)
    token_ids, scores = decode(model, BeamSearch(2, length_penalty=0.0), 4)
    np.testing.assert_array_equal(token_ids, [[[3, 0, 0, 0], [4, 3, 0, 0]]])
    np.testing.assert_allclose(scores, [[np.log(0.6), np.log(0.4)]], rtol=1e-5)


def test_the_length_penalty_can_reverse_the_order(table_model: Any) -> None:
    model = table_model({2: {3: 0.6, 4: 0.4}, 4: {3: 1.0}}, 5)
    token_ids, scores = decode(model, BeamSearch(2, length_penalty=4.0), 4)
    np.testing.assert_array_equal(token_ids, [[[4, 3, 0, 0], [3, 0, 0, 0]]])
    np.testing.assert_allclose(scores, [[np.log(0.4) / (7 / 6) ** 4, np.log(0.6)]], rtol=1e-5)


def test_a_beam_finds_what_greedy_search_misses(table_model: Any) -> None:
    model = table_model({2: {4: 0.6, 5: 0.4}, 4: {3: 0.55, 4: 0.45}, 5: {3: 1.0}}, 6)
    token_ids, scores = decode(model, BeamSearch(2, length_penalty=0.0), 4)
    np.testing.assert_array_equal(token_ids[0, 0], [5, 3, 0, 0])
    np.testing.assert_allclose(scores[0], np.log([0.4, 0.33]), rtol=1e-5)


def test_what_did_not_end_comes_after_what_did(table_model: Any) -> None:
    model = table_model({2: {4: 0.9, 3: 0.1}, 4: {4: 1.0}}, 5)
    token_ids, scores = decode(model, BeamSearch(2, length_penalty=1.0), 3)
    np.testing.assert_array_equal(token_ids, [[[3, 0, 0], [4, 4, 4]]])
    np.testing.assert_allclose(scores, [[np.log(0.1), np.log(0.9) / (8 / 6)]], rtol=1e-5)


def test_banned_tokens_are_never_generated(table_model: Any) -> None:
    model = table_model({2: {0: 0.4, 1: 0.3, 2: 0.2, 4: 0.1}, 4: {1: 0.9, 3: 0.1}}, 5)
    token_ids, scores = decode(model, BeamSearch(3, length_penalty=0.0), 3)
    np.testing.assert_array_equal(token_ids, [[[4, 3, 0], [0, 0, 0], [0, 0, 0]]])
    np.testing.assert_allclose(scores[0, 0], np.log(0.01), rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_follows_the_end(recurrent_model: Any, seed: int) -> None:
    sources = np.arange(5, dtype="int32")[:, None]
    token_ids, scores = decode(recurrent_model(5, 8, seed), BeamSearch(4), 7, sources)
    after_end = np.cumsum(token_ids == 3, axis=-1) - (token_ids == 3) > 0
    assert after_end.any()
    assert (token_ids[after_end] == 0).all()
    assert set(np.unique(token_ids[~after_end])) <= {3, 4, 5, 6, 7}
    ended = (token_ids == 3).any(axis=-1)
    assert (np.diff(ended.astype(int), axis=1) <= 0).all()
    assert (np.diff(scores, axis=1)[ended[:, 1:]] <= 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_is_greedy_search(recurrent_model: Any, seed: int) -> None:
    model, sources = recurrent_model(6, 8, seed), np.arange(6, dtype="int32")[:, None]
    beam = decode(model, BeamSearch(1, length_penalty=0.0), 7, sources)
    greedy = decode(model, GreedySearch(), 7, sources)
    np.testing.assert_array_equal(beam[0], greedy[0])
    np.testing.assert_allclose(beam[1], greedy[1], rtol=1e-5)


class EndlessBeamSearch(kt.decoding.BeamSearch):
    """Never stops early."""

    def is_running(self, state: Any, max_length: int) -> Any:
        return ops.ones_like(state.running_log_probabilities[:, 0], dtype="bool")


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_stopping_early_changes_nothing(recurrent_model: Any, beam_size: int, alpha: float) -> None:
    model, sources = recurrent_model(8, 6, 2), np.arange(8, dtype="int32")[:, None]
    options: Any = {"length_penalty": alpha, "early_stopping": "never", "special_ids": SPECIAL_IDS}
    early = decode(model, BeamSearch(beam_size, **options), 9, sources)
    late = decode(model, EndlessBeamSearch(beam_size, **options), 9, sources)
    np.testing.assert_array_equal(early[0], late[0])
    np.testing.assert_allclose(early[1], late[1], rtol=1e-5)


def test_fewer_hypotheses_are_the_best_of_all(recurrent_model: Any) -> None:
    model, sources = recurrent_model(8, 6, 4), np.arange(8, dtype="int32")[:, None]
    every = decode(model, BeamSearch(4, length_penalty=0.0, early_stopping="never"), 9, sources)
    search = BeamSearch(4, num_hypotheses=2, length_penalty=0.0)
    two = generate(model, ops.convert_to_tensor(sources), search, 9)
    np.testing.assert_array_equal(ops.convert_to_numpy(two.token_ids), every[0][:, :2])
    np.testing.assert_allclose(ops.convert_to_numpy(two.scores), every[1][:, :2], rtol=1e-5)


class CountingModel:
    """Counts the steps that a search asks for."""

    def __init__(self, model: Any) -> None:
        self.model, self.num_steps = model, 0

    def start_decoding(self, *arguments: Any, **options: Any) -> Any:
        step, cache = self.model.start_decoding(*arguments, **options)

        def counted(*arguments: Any) -> Any:
            self.num_steps += 1
            return step(*arguments)

        return counted, cache


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX traces a step once for all rounds")
@pytest.mark.parametrize(
    ("options", "num_steps"),
    [
        ({"length_penalty": 0.0}, 1),
        ({"length_penalty": 9.0}, 1),
        ({"length_penalty": 9.0, "early_stopping": "never"}, 9),
    ],
)
def test_it_stops_when_no_hypothesis_can_win(table_model: Any, options: Any, num_steps: int) -> None:
    model = CountingModel(table_model({2: {3: 0.9, 4: 0.1}, 4: {3: 0.2, 4: 0.8}}, 5))
    decode(model, BeamSearch(1, **options), 9)
    assert model.num_steps == num_steps


def test_a_source_that_is_done_stays_as_it_is(recurrent_model: Any) -> None:
    model, sources = recurrent_model(8, 6, 5), np.arange(8, dtype="int32")[:, None]
    together = decode(model, BeamSearch(2, length_penalty=1.0), 12, sources)
    for row in range(8):
        alone = decode(model, BeamSearch(2, length_penalty=1.0), 12, sources[row : row + 1])
        np.testing.assert_array_equal(together[0][row], alone[0][0])
        np.testing.assert_allclose(together[1][row], alone[1][0], rtol=1e-5)


def test_constraints_hold_for_every_hypothesis(recurrent_model: Any) -> None:
    model, sources = recurrent_model(4, 9, 8), np.arange(4, dtype="int32")[:, None]
    rules = Constraints(min_length=4, banned_token_ids=(5,), no_repeat_ngram_size=2)
    token_ids, scores = decode(model, BeamSearch(3, constraints=rules), 9, sources)
    for hypothesis in token_ids[scores > NO_SEQUENCE / 2].tolist():
        tokens = [token for token in hypothesis if token]
        pairs = list(itertools.pairwise(tokens))
        assert len(tokens) >= 4
        assert 5 not in tokens
        assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_wide_beam_with_constraints_finds_every_sequence_in_order(
    recurrent_model: Any, alpha: float
) -> None:
    model, rules = recurrent_model(1, 4, 6), Constraints(min_length=3, no_repeat_ngram_size=2)
    search = BeamSearch(32, length_penalty=alpha, constraints=rules, special_ids=FOUR_IDS)
    token_ids, scores = decode(model, search, 4)
    expected = [
        (score, tokens)
        for score, tokens in every_hypothesis(model, 0, 4, alpha)
        if sum(token > 0 for token in tokens) >= 3 and not _repeats(tokens)
    ]
    assert 5 < len(expected) < 31
    np.testing.assert_allclose(scores[0, : len(expected)], [score for score, _ in expected], rtol=1e-4)
    np.testing.assert_array_equal(token_ids[0, : len(expected)], [tokens for _, tokens in expected])


def _repeats(tokens: list[int]) -> bool:
    pairs = list(itertools.pairwise(token for token in tokens if token))
    return len(set(pairs)) < len(pairs)


def test_first_tokens_and_a_forced_end_have_no_score(recurrent_model: Any) -> None:
    model, prefix = recurrent_model(1, 6, 8), ops.convert_to_tensor([[4]], "int32")
    rules = Constraints(first_token_ids=(5, 3), force_end=True, banned_first_token_ids=(4,), min_length=6)
    for search in (BeamSearch(3, length_penalty=0.0), GreedySearch()):
        search = dataclasses.replace(search, constraints=rules, special_ids=FOUR_IDS)
        token_ids, scores = decode(model, search, 6)
        assert (token_ids[0, :, :2] == [5, 3]).all()
        assert (token_ids[0, :, 2] != 4).all()
        assert (token_ids[0, :, 5] == 1).all()
        for tokens, score in zip(token_ids[0], scores[0], strict=True):
            first, whole = (model.log_probability(0, [0, *tokens[:end]]) for end in (2, 5))
            np.testing.assert_allclose(score, whole - first, rtol=1e-4)
        # A prefix comes after them.
        result = generate(model, ops.convert_to_tensor(ONE_SOURCE), search, 6, prefix_ids=prefix)
        assert (ops.convert_to_numpy(result.token_ids)[0, :, :3] == [5, 3, 4]).all()


@pytest.mark.parametrize(
    "special_ids",
    [
        SpecialIds(pad=0, unknown=2, start=2, end=1),  # the unknown token, 3, may be generated
        SpecialIds(pad=0, unknown=0, start=0, end=1),  # Marian starts from padding
        SpecialIds(pad=0, unknown=3, start=1, end=1),  # BART starts from the end
    ],
)
@pytest.mark.parametrize("kind", [GreedySearch, BeamSearch])
def test_ids_may_be_equal(recurrent_model: Any, kind: Any, special_ids: SpecialIds) -> None:
    model, sources = recurrent_model(9, 6, 8), np.arange(9, dtype="int32")[:, None]
    fast = decode(model, kind(special_ids=special_ids), 7, sources)
    plain = decode(model, kind(special_ids=special_ids, constraints=Constraints(min_length=1)), 7, sources)
    np.testing.assert_array_equal(fast[0], plain[0])
    np.testing.assert_allclose(fast[1], plain[1], atol=1e-5)
    allowed = {0, 1, 2, 3, 4, 5} - ({special_ids.unknown, special_ids.start} - {special_ids.end, 0})
    assert {special_ids.end} <= set(np.unique(fast[0])) <= allowed


def test_answers_begin_with_a_prefix(recurrent_model: Any) -> None:
    model, sources = recurrent_model(2, 6, 8), np.arange(2, dtype="int32")[:, None]
    prefix = ops.convert_to_tensor([[5, 4], [4, 0]], "int32")
    result = generate(model, ops.convert_to_tensor(sources), BeamSearch(3), 6, prefix_ids=prefix)
    token_ids = ops.convert_to_numpy(result.token_ids)
    assert (token_ids[0, :, :2] == [5, 4]).all()
    assert (token_ids[1, :, 0] == 4).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_hypotheses": 5}, r"Received: num_hypotheses=5, beam_size=4\."),
        ({"num_hypotheses": 0}, r"Received: num_hypotheses=0\."),
        ({"early_stopping": "always"}, r"one of True, False, 'never'\. Received: early_stopping='always'\."),
        (
            {"length_normalization": "none"},
            r"'generated_length'\. Received: length_normalization='none'\.",
        ),
    ],
)
def test_wrong_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BeamSearch(4, **options)


@pytest.mark.parametrize("beam_size", [0, -2])
def test_a_wrong_beam_size_is_refused(beam_size: int) -> None:
    with pytest.raises(ValueError, match=rf"`beam_size` must be .*\. Received: beam_size={beam_size}\."):
        BeamSearch(beam_size)


def test_a_negative_length_penalty_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Received: length_penalty=-0\.25\."):
        BeamSearch(2, length_penalty=-0.25)
