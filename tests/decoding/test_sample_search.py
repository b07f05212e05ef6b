"""Sampling whole answers: the distribution, the score, the seed and every way to run it."""

import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import compile_function
from keras_transformer.decoding import GreedySearch, Request, SpecialIds, generate
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.sampling import SampleSearch

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


@pytest.mark.parametrize("options", [{}, {"temperature": 1.5, "top_k": 5, "top_p": 0.9}])
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
    first, other = (decode(model, SampleSearch(seed=seed, num_samples=5), 6)[0] for seed in (1, 2))
    assert (first != other).any()


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
    search, lengths = (
        SampleSearch(num_samples=20, seed=2, constraints=rules),
        np.array([1, 2, 3, 4, 5], "int32"),
    )
    cache = model.create_cache(ops.convert_to_tensor(SOURCES), 8, 20)
    request = Request(5, 8, source_lengths=ops.convert_to_tensor(lengths))
    result = search(model.decode_step, cache, request)
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
        ({"temperature": 0.0}, ValueError, r"Received: temperature=0\.0\."),
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


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="without a seed JAX draws nothing in its jit")
def test_without_a_seed_a_transformer_gives_other_answers_too(transformer: Any, source_ids: Any) -> None:
    search = SampleSearch(num_samples=7)
    compiled = compile_function(lambda ids: generate(transformer, ids, search, 6), transformer.variables)
    sources = ops.convert_to_tensor(source_ids)
    for function in (compiled, lambda ids: generate(transformer, ids, search, 6)):
        first, other = (ops.convert_to_numpy(function(sources)[0]) for _ in range(2))
        assert (first != other).any()


def test_options_that_are_changed_are_those_of_the_search(recurrent_model: Any) -> None:
    model, search = recurrent_model(5, 7, seed=1), SampleSearch(seed=5)
    search.temperature, search.top_k, search.num_samples = 0.5, 3, 4
    expected = decode(model, SampleSearch(0.5, 3, num_samples=4, seed=5), 6)[0]
    np.testing.assert_array_equal(decode(model, search, 6)[0], expected)
