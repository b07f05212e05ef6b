"""Sampling: one token by hand, by frequency and at the edges of float32; then whole outputs."""

import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from helpers import GreedySearch, SampleSearch
from keras_transformer._backend import compile_function, draw_uniforms
from keras_transformer.decoding import Constraints, generate
from keras_transformer.types import SpecialIds

NO_PROBABILITY = -1e30
PROBABILITIES = np.array([0.1, 0.4, 0.2, 0.3], "float32")
LARGEST = np.nextafter(np.float32(1), np.float32(0))  # 0.99999994


def choose(search: SampleSearch, probabilities: np.ndarray, uniform: Any) -> np.ndarray:
    """Draw a token of one distribution for each uniform number."""
    uniform = np.array(uniform, "float32")
    scores = np.full_like(probabilities, NO_PROBABILITY)
    np.log(probabilities, where=probabilities > 0, out=scores)
    rows = ops.convert_to_tensor(np.tile(scores, (len(uniform), 1)))
    return ops.convert_to_numpy(search.choose(rows, ops.convert_to_tensor(uniform)))


def is_drawn(search: SampleSearch, probabilities: np.ndarray = PROBABILITIES) -> list[int]:
    """Which tokens a fine grid of uniform numbers gives."""
    grid = np.append(np.linspace(0, 1, 101, endpoint=False), LARGEST)
    return np.unique(choose(search, probabilities, grid)).tolist()


def test_the_cumulated_distribution_is_inverted() -> None:
    # The borders are at 0.1, 0.5 and 0.7.
    tokens = choose(SampleSearch(), PROBABILITIES, [0.0, 0.09, 0.11, 0.49, 0.51, 0.69, 0.71, LARGEST])
    np.testing.assert_array_equal(tokens, [0, 0, 1, 1, 2, 2, 3, 3])
    assert tokens.dtype == np.int32


def test_temperature_reshapes_the_distribution() -> None:
    # Squares of the probabilities: 0.01, 0.16, 0.04, 0.09, in all 0.3.
    borders = np.cumsum([0.01, 0.16, 0.04, 0.09]) / 0.3
    uniform = np.sort(np.concatenate([borders - 0.01, borders[:-1] + 0.01]))
    tokens = choose(SampleSearch(0.5), PROBABILITIES, uniform)
    np.testing.assert_array_equal(tokens, [0, 1, 1, 2, 2, 3, 3])


def test_a_tiny_temperature_takes_the_most_likely() -> None:
    assert is_drawn(SampleSearch(1e-30)) == is_drawn(SampleSearch(1e-44)) == [1]
    assert is_drawn(SampleSearch(1e-30), np.array([0.0, 0.2, 0.8, 0.0], "float32")) == [2]


@pytest.mark.parametrize(("top_k", "tokens"), [(1, [1]), (2, [1, 3]), (3, [1, 2, 3]), (9, [0, 1, 2, 3])])
def test_top_k_keeps_the_most_likely(top_k: int, tokens: list[int]) -> None:
    assert is_drawn(SampleSearch(top_k=top_k)) == tokens


@pytest.mark.parametrize(
    ("top_p", "tokens"),
    [(0.01, [1]), (0.39, [1]), (0.41, [1, 3]), (0.69, [1, 3]), (0.71, [1, 2, 3]), (1, [0, 1, 2, 3])],
)
def test_top_p_keeps_the_smallest_nucleus(top_p: float, tokens: list[int]) -> None:
    assert is_drawn(SampleSearch(top_p=top_p)) == tokens


def test_top_p_sees_what_top_k_left() -> None:
    # Of 0.4 and 0.3 alone, the first has 0.571 of the whole.
    assert is_drawn(SampleSearch(top_k=2, top_p=0.56)) == [1]
    assert is_drawn(SampleSearch(top_k=2, top_p=0.58)) == [1, 3]


def test_what_is_left_shares_the_whole() -> None:
    tokens = choose(SampleSearch(top_k=2), PROBABILITIES, [0.0, 0.56, 0.58, LARGEST])  # 0.4 of 0.7 is 0.571
    np.testing.assert_array_equal(tokens, [1, 1, 3, 3])


@pytest.mark.parametrize(
    "search", [SampleSearch(), SampleSearch(3.0), SampleSearch(top_k=700), SampleSearch(top_p=0.9999)]
)
def test_what_is_forbidden_is_never_drawn(search: SampleSearch) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        probabilities = rng.dirichlet(np.full(997, 0.05)).astype("float32")
        probabilities[rng.random(997) < 0.7] = 0
        probabilities[[0, -1]] = 0
        uniform = np.concatenate([[0.0, LARGEST, np.nextafter(LARGEST, np.float32(0))], rng.random(20)])
        assert (probabilities[choose(search, probabilities, uniform)] > 0).all()


def test_minus_infinity_is_forbidden_too() -> None:
    scores = ops.convert_to_tensor(np.array([[-np.inf, 0.0, -np.inf]] * 2, "float32"))
    tokens = SampleSearch().choose(scores, ops.convert_to_tensor([0.0, LARGEST], "float32"))
    np.testing.assert_array_equal(ops.convert_to_numpy(tokens), [1, 1])


@pytest.mark.parametrize(
    "search", [SampleSearch(), SampleSearch(0.7), SampleSearch(top_k=5), SampleSearch(1.5, 6, 0.9)]
)
def test_frequencies_are_those_of_the_distribution(search: SampleSearch) -> None:
    probabilities = np.array([0.05, 0.3, 0.02, 0.25, 0.11, 0.2, 0.07], "float32")
    uniform = ops.convert_to_numpy(draw_uniforms(5, 1, ops.arange(20_000)))[0]
    counts = np.bincount(choose(search, probabilities, uniform), minlength=7)
    expected = reference(search, probabilities.astype("float64")) * 20_000
    np.testing.assert_array_equal(counts[expected == 0], 0)
    kept = expected > 0
    chi_square = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    assert chi_square < 22.5, "the 99.9th percentile of 6 degrees of freedom"


def reference(search: SampleSearch, probabilities: np.ndarray) -> np.ndarray:
    """Compute the distribution in NumPy."""
    probabilities = probabilities ** (1 / search.temperature)
    order = np.argsort(-probabilities)
    probabilities[order[search.top_k or 7 :]] = 0
    probabilities /= probabilities.sum()
    before = np.cumsum(probabilities[order]) - probabilities[order]
    probabilities[order[before >= (search.top_p or 1)]] = 0
    return probabilities / probabilities.sum()


def test_compiled_code_draws_the_same() -> None:
    def draw(rows: Any) -> Any:
        scores = ops.tile(ops.convert_to_tensor(np.log(PROBABILITIES))[None], (ops.shape(rows)[0], 1))
        return SampleSearch(0.9, 3, 0.9).choose(
            scores, draw_uniforms(7, 2, ops.arange(ops.shape(rows)[0]))[1]
        )

    rows = ops.zeros((50, 1), "int32")
    compiled, plain = ops.convert_to_numpy(compile_function(draw)(rows)), ops.convert_to_numpy(draw(rows))
    np.testing.assert_array_equal(compiled, plain)
    assert len(np.unique(plain)) > 1


SOURCES = np.arange(5, dtype="int32")[:, None]


def decode(
    model: Any, search: SampleSearch, max_length: int, sources: Any = SOURCES
) -> tuple[np.ndarray, np.ndarray]:
    """Token ids `(b, n, T)` and scores `(b, n)`."""
    result = generate(model, ops.convert_to_tensor(sources), search, max_length)
    token_ids, scores = map(ops.convert_to_numpy, result)
    assert token_ids.shape == (len(sources), search.num_samples, max_length)
    assert token_ids.dtype == np.int32
    return token_ids, scores


def until_end(token_ids: np.ndarray) -> list[int]:
    """Take the tokens of one row up to the end token, and check that padding follows."""
    tokens = token_ids.tolist()
    length = tokens.index(3) + 1 if 3 in tokens else len(tokens)
    assert not any(tokens[length:])
    return tokens[:length]


def test_answers_are_as_frequent_as_they_are_likely(table_model: Any) -> None:
    model = table_model({2: {4: 0.6, 5: 0.3, 3: 0.1}, 4: {5: 0.7, 3: 0.3}, 5: {3: 1.0}}, 6)
    token_ids, scores = decode(model, SampleSearch(num_samples=5000, seed=3), 4, SOURCES[:1])
    likely = {(4, 5, 3, 0): 0.42, (4, 3, 0, 0): 0.18, (5, 3, 0, 0): 0.3, (3, 0, 0, 0): 0.1}
    answers = list(map(tuple, token_ids[0].tolist()))
    assert set(answers) == set(likely)
    counts = np.array([answers.count(answer) for answer in likely])
    expected = 5000 * np.array(list(likely.values()))
    assert ((counts - expected) ** 2 / expected).sum() < 16.3, "99.9th percentile of 3 degrees of freedom"
    np.testing.assert_allclose(scores[0], [np.log(likely[answer]) for answer in answers], rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"temperature": 2.5, "top_k": 4}, {"length_penalty": 1.0}])
def test_the_score_is_that_of_the_model(recurrent_model: Any, options: dict[str, Any]) -> None:
    model = recurrent_model(5, 7, seed=1)
    token_ids, scores = decode(model, SampleSearch(num_samples=3, seed=11, **options), 6)
    assert (np.diff(scores, axis=1) <= 0).all(), "the best comes first"
    for source, of_source in enumerate(token_ids):
        for hypothesis, score in zip(of_source, scores[source], strict=True):
            tokens = until_end(hypothesis)
            expected = model.log_probability(source, [2, *tokens])
            expected /= ((5 + len(tokens)) / 6) ** options.get("length_penalty", 0.0)
            assert score == pytest.approx(expected, rel=1e-4)


def test_one_of_the_most_likely_is_greedy(recurrent_model: Any) -> None:
    model = recurrent_model(5, 7, seed=2)
    token_ids, scores = decode(model, SampleSearch(top_k=1), 6)
    greedy = generate(model, ops.convert_to_tensor(SOURCES), GreedySearch(), 6)
    np.testing.assert_array_equal(token_ids, ops.convert_to_numpy(greedy.token_ids))
    np.testing.assert_allclose(scores, ops.convert_to_numpy(greedy.scores), rtol=1e-5)


def runners() -> dict[str, Callable[..., Any]]:
    """Give the ways to compile a function of token ids on the backend in use."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return {"graph": compile_function, "XLA": lambda f: tf.function(f, jit_compile=True, autograph=False)}
    return {"compiled": compile_function}


@pytest.mark.parametrize(
    "options", [pytest.param({}, marks=pytest.mark.slow), {"temperature": 1.5, "top_k": 5, "top_p": 0.9}]
)
@pytest.mark.parametrize("how", runners())
def test_one_seed_gives_the_same_tokens_however_it_runs(
    recurrent_model: Any, how: str, options: dict[str, Any]
) -> None:
    rules = Constraints(min_length=2, no_repeat_ngram_size=2, repetition_penalty=1.2)
    search, model = (
        SampleSearch(**options, num_samples=3, seed=5, constraints=rules),
        recurrent_model(5, 7, 1),
    )
    compiled = runners()[how](lambda ids: generate(model, ids, search, 6))
    expected_ids, expected_scores = decode(model, search, 6)
    for _ in range(2):
        token_ids, scores = map(ops.convert_to_numpy, compiled(ops.convert_to_tensor(SOURCES)))
        np.testing.assert_array_equal(token_ids, expected_ids)
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)


def test_rows_do_not_change_each_other(recurrent_model: Any) -> None:
    model, search = recurrent_model(5, 7, seed=1), SampleSearch(num_samples=2, seed=5)
    together, _ = decode(model, search, 6)
    for count in (1, 3):
        np.testing.assert_array_equal(decode(model, search, 6, SOURCES[:count])[0], together[:count])


def test_seeds_differ(recurrent_model: Any) -> None:
    model = recurrent_model(5, 7, seed=1)
    drawn = [decode(model, SampleSearch(seed=seed, num_samples=5), 6)[0] for seed in (0, 1, -1, -2, 2**40)]
    assert len({each.tobytes() for each in drawn}) == 5


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="without a seed JAX draws nothing in its jit")
def test_without_a_seed_each_call_is_another_in_a_graph_too(recurrent_model: Any) -> None:
    model, search = recurrent_model(5, 7, seed=1), SampleSearch(num_samples=7)
    compiled = compile_function(lambda ids: generate(model, ids, search, 6))
    first, other = (ops.convert_to_numpy(compiled(ops.convert_to_tensor(SOURCES))[0]) for _ in range(2))
    assert (first != other).any()


def test_constraints_hold(recurrent_model: Any) -> None:
    model = recurrent_model(5, 7, seed=1)
    rules = Constraints(min_length=4, banned_token_ids=(5,), no_repeat_ngram_size=2)
    token_ids, _ = decode(model, SampleSearch(num_samples=20, seed=2, constraints=rules), 8)
    for hypothesis in token_ids.reshape(-1, 8):
        tokens = until_end(hypothesis)
        pairs = list(itertools.pairwise(tokens))
        assert len(pairs) == len(set(pairs))
        assert len(tokens) >= 4
        assert 5 not in tokens


def test_bounds_follow_the_source(recurrent_model: Any) -> None:
    model = recurrent_model(5, 7, seed=1)
    rules = Constraints(min_length_ratio=1.0, max_length_ratio=1.0, max_length_offset=1)
    search, lengths = SampleSearch(num_samples=20, seed=2, constraints=rules), np.arange(1, 6)
    mask = np.arange(5) < lengths[:, None]
    result = generate(model, np.repeat(SOURCES, 5, axis=1), search, 8, padding_mask=mask)
    for length, hypotheses in zip(lengths, ops.convert_to_numpy(result.token_ids), strict=True):
        assert {len(until_end(hypothesis)) for hypothesis in hypotheses} <= {length, length + 1}


def test_special_ids_can_be_others(table_model: Any) -> None:
    model = table_model({5: {0: 0.9, 3: 0.1}, 3: {1: 1.0}}, 6)
    search = SampleSearch(seed=1, special_ids=SpecialIds(pad=4, unknown=0, start=5, end=1))
    token_ids, _ = decode(model, search, 3, SOURCES[:1])
    np.testing.assert_array_equal(token_ids, [[[3, 1, 4]]])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_samples": 0}, ValueError, r"Received: num_samples=0\."),
        ({"seed": 1.5}, TypeError, r"`seed` must be an integer or None\. Received: seed=1\.5\."),
        ({"length_penalty": -1.0}, ValueError, r"Received: length_penalty=-1\.0\."),
        ({"temperature": 0}, ValueError, r"`GreedySearch`.* Received: temperature=0\."),
        ({"temperature": -1.0}, ValueError, r"Received: temperature=-1\.0\."),
        ({"temperature": "1"}, TypeError, r"Received: temperature='1'\."),
        ({"top_k": 0}, ValueError, r"Received: top_k=0\."),
        ({"top_k": 1.5}, TypeError, r"Received: top_k=1\.5\."),
        ({"top_p": 0.0}, ValueError, r"Received: top_p=0\.0\."),
        ({"top_p": 1.01}, ValueError, r"at most 1\. Received: top_p=1\.01\."),
        ({"top_p": True}, TypeError, r"Received: top_p=True\."),
    ],
)
def test_wrong_options_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SampleSearch(**options)


def test_sources_are_told_apart_by_their_numbers(recurrent_model: Any) -> None:
    model, search = recurrent_model(5, 7, seed=2), SampleSearch(4.0, num_samples=2, seed=4)
    sources = ops.convert_to_tensor(np.repeat(SOURCES[:1], 6, axis=0))
    whole = ops.convert_to_numpy(generate(model, sources, search, 6).token_ids)
    assert len(np.unique(whole, axis=0)) > 3, "samples of one source should differ"
    part = generate(model, sources[:2], search, 6, source_numbers=ops.convert_to_tensor([5, 1], "int32"))
    np.testing.assert_array_equal(ops.convert_to_numpy(part.token_ids), whole[[5, 1]])


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "jax", reason="without a seed JAX draws nothing in its jit")
def test_without_a_seed_a_transformer_gives_other_answers_too(transformer: Any, source_ids: Any) -> None:
    search = SampleSearch(num_samples=7)
    compiled = compile_function(lambda ids: generate(transformer, ids, search, 6), transformer.variables)
    sources = ops.convert_to_tensor(source_ids)
    for function in (compiled, lambda ids: generate(transformer, ids, search, 6)):
        first, other = (ops.convert_to_numpy(function(sources)[0]) for _ in range(2))
        assert (first != other).any()
