"""Completing texts: the cache, rows and compiled code change nothing, and the beginning counts."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.backend import compile_function
from keras_transformer.decoding import BeamSearch, GreedySearch, Request, Search, complete

SEARCHES = [GreedySearch(), BeamSearch(3, length_penalty=1.0)]
PROMPTS = np.array([[2, 4, 6], [2, 7, 5], [2, 1, 3], [2, 6, 4], [2, 5, 5]])


@pytest.fixture(scope="module")
def model() -> keras.Model:
    """A tiny model whose random weights are so large that different beginnings have different ends."""
    model = kt.CausalLM(8, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=16, tie_output=False)
    rng = np.random.default_rng(3)
    for weight in model.trainable_variables:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape))
    return model


def log_probabilities(model: keras.Model, token_ids: np.ndarray) -> np.ndarray:
    """Give those of each next token by the whole model without a cache: `(b, t, v)`, in NumPy."""
    logits = ops.convert_to_numpy(model(token_ids, training=False)).astype("float64")
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_greedy_search_gives_what_the_whole_model_says(model: keras.Model) -> None:
    token_ids, scores = map(ops.convert_to_numpy, complete(model, PROMPTS, GreedySearch(), 4))
    rows, totals, ended = PROMPTS, np.zeros(5), np.zeros(5, bool)
    for _ in range(4):
        following = log_probabilities(model, rows)[:, -1]
        following[:, :3] = -np.inf  # padding, unknown and start are never generated
        totals += np.where(ended, 0, following.max(axis=1))
        added = np.where(ended, 0, following.argmax(axis=1))
        rows, ended = np.concatenate([rows, added[:, None]], axis=1), ended | (added == 3)
    np.testing.assert_array_equal(token_ids[:, 0], rows[:, 3:])
    np.testing.assert_allclose(scores[:, 0], totals, rtol=1e-4)
    assert len(np.unique(token_ids, axis=0)) > 2, "continuations should differ"


def test_a_wide_beam_finds_the_most_likely_end(model: keras.Model) -> None:
    token_ids, scores = map(
        ops.convert_to_numpy, complete(model, PROMPTS, BeamSearch(5, length_penalty=0), 2)
    )
    first = log_probabilities(model, PROMPTS)[:, -1]
    longer = np.concatenate([np.repeat(PROMPTS, 4, axis=0), np.tile(np.arange(4, 8), 5)[:, None]], axis=1)
    second = log_probabilities(model, longer)[:, -1].reshape(5, 4, 8)
    for row in range(5):
        totals = {(3, 0): first[row, 3]} | {
            (a, 3): first[row, a] + second[row, a - 4, 3] for a in range(4, 8)
        }
        best = max(totals, key=totals.get)
        assert tuple(token_ids[row, 0]) == best
        assert scores[row, 0] == pytest.approx(totals[best], rel=1e-4)


def test_the_start_token_alone_asks_for_a_whole_text(model: keras.Model) -> None:
    search = GreedySearch()
    whole = search(model.decode_step, model.create_cache(1, 6), Request(1, 6))
    for result, expected in zip(complete(model, [[2]], search, 6), whole, strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(result), ops.convert_to_numpy(expected), rtol=1e-5)


@pytest.mark.parametrize("search", SEARCHES)
def test_rows_do_not_change_each_other(model: keras.Model, search: Search) -> None:
    together = complete(model, PROMPTS, search, 4)
    alone = complete(model, PROMPTS[1:2], search, 4)
    for result, expected in zip(alone, together, strict=True):
        np.testing.assert_allclose(
            ops.convert_to_numpy(result), ops.convert_to_numpy(expected)[1:2], rtol=1e-4, atol=1e-5
        )


def test_a_longer_beginning_goes_on_where_a_shorter_one_was_heading(model: keras.Model) -> None:
    best = ops.convert_to_numpy(complete(model, PROMPTS, GreedySearch(), 3).token_ids)[:, 0]
    running = ~np.any(best[:, :2] == 3, axis=1)
    longer = np.concatenate([PROMPTS, best[:, :1]], axis=1)
    continued = complete(model, longer, GreedySearch(), 2).token_ids
    assert running.any()
    np.testing.assert_array_equal(ops.convert_to_numpy(continued)[running, 0], best[running, 1:])


def test_compiled_code_gives_the_same(model: keras.Model) -> None:
    search = SEARCHES[1]
    compiled = compile_function(lambda ids: complete(model, ops.reshape(ids, (-1, 3)), search, 4))
    prompts = ops.convert_to_tensor(PROMPTS, "int32")
    for result, expected in zip(compiled(prompts), complete(model, prompts, search, 4), strict=True):
        np.testing.assert_allclose(
            ops.convert_to_numpy(result), ops.convert_to_numpy(expected), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    ("prompts", "error", "message"),
    [
        (np.array([2, 4]), ValueError, r"`prompt_ids` must be integers of shape \(b, p\).* shape=\(2,\)"),
        (np.zeros((3, 0), "int32"), ValueError, r"above zero. Received: shape=\(3, 0\)"),
        (np.array([[2.0, 4.0]], "float32"), TypeError, r"`prompt_ids` must be integers.* dtype=float32"),
    ],
)
def test_other_beginnings_are_refused(
    model: keras.Model, prompts: np.ndarray, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        complete(model, prompts, GreedySearch(), 3)


@pytest.mark.parametrize("kind", ["Transformer", "list"])
def test_a_model_with_an_encoder_is_refused(transformer: keras.Model, kind: str) -> None:
    message = rf"alone, such as a `CausalLM`; `decoding\.generate` .* Received: {kind}\."
    with pytest.raises(TypeError, match=message):
        complete(transformer if kind == "Transformer" else [], PROMPTS, GreedySearch(), 3)


def test_lists_are_beginnings_too(model: keras.Model) -> None:
    lists, arrays = (complete(model, ids, GreedySearch(), 3) for ids in (PROMPTS.tolist(), PROMPTS))
    np.testing.assert_array_equal(*map(ops.convert_to_numpy, (lists.token_ids, arrays.token_ids)))


def test_more_tokens_than_positions_are_refused() -> None:
    model = kt.CausalLM(
        9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, positions="learned", max_length=6
    )
    assert complete(model, [[2, 5, 5]], GreedySearch(), 4).token_ids.shape == (1, 1, 4)
    with pytest.raises(ValueError, match=r"Received: 7 tokens, a model with max_length=6\."):
        complete(model, [[2, 5, 5]], GreedySearch(), 5)
