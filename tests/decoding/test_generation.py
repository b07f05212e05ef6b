"""Decoding with a Transformer: the cache, batches, and compiled code change nothing."""

from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.backend import compile_function
from keras_transformer.decoding import BeamSearch, Constraints, GreedySearch, Search, generate

SEARCHES = [GreedySearch(), BeamSearch(3, length_penalty=1.0)]


class PrefixCache(NamedTuple):
    """All that was read and written so far."""

    encoder_token_ids: Any
    """`(b * n, s)`."""
    decoder_token_ids: Any
    """`(b * n, T)`."""

    def reorder(self, rows: Any) -> "PrefixCache":
        return PrefixCache(*(ops.take(token_ids, rows, axis=0) for token_ids in self))


class UncachedModel:
    """Runs the whole model at each step."""

    def __init__(self, model: keras.Model) -> None:
        self.model = model

    def create_cache(self, encoder_token_ids: Any, max_length: int, beam_size: int = 1) -> PrefixCache:
        sources = ops.repeat(encoder_token_ids, beam_size, axis=0)
        return PrefixCache(sources, ops.zeros((sources.shape[0], max_length), "int32"))

    def decode_step(self, token_ids: Any, position: Any, cache: Any) -> tuple[Any, PrefixCache]:
        at_position = ops.equal(ops.arange(cache.decoder_token_ids.shape[1]), position)
        written = ops.where(at_position, token_ids[:, None], cache.decoder_token_ids)
        cache = cache._replace(decoder_token_ids=written)
        return ops.take(self.model(cache._asdict(), training=False), position, axis=1), cache


def assert_same(result: Any, expected: Any) -> None:
    token_ids, scores = map(ops.convert_to_numpy, result)
    np.testing.assert_array_equal(token_ids, ops.convert_to_numpy(expected[0]))
    np.testing.assert_allclose(scores, ops.convert_to_numpy(expected[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("search", SEARCHES)
def test_the_cache_changes_nothing(transformer: Any, source_ids: np.ndarray, search: Search) -> None:
    sources = ops.convert_to_tensor(source_ids)
    cached = generate(transformer, sources, search, 5)
    best = ops.convert_to_numpy(cached.token_ids)[:, 0]
    assert len(np.unique(best, axis=0)) > 1, "answers should differ"
    assert_same(cached, generate(UncachedModel(transformer), sources, search, 5))


@pytest.mark.parametrize("search", SEARCHES)
def test_rows_do_not_change_each_other(transformer: Any, source_ids: np.ndarray, search: Search) -> None:
    compiled = compile_function(lambda ids: generate(transformer, ids, search, 7))
    token_ids, scores = compiled(ops.convert_to_tensor(source_ids))
    for row, source in enumerate(source_ids):
        alone = compiled(ops.convert_to_tensor(source[source != 0][None]))
        assert_same(alone, (token_ids[row : row + 1], scores[row : row + 1]))


@pytest.mark.parametrize("search", SEARCHES)
def test_compiled_code_gives_the_same(transformer: Any, source_ids: np.ndarray, search: Search) -> None:
    compiled = compile_function(lambda ids: generate(transformer, ids, search, 5))
    for sources in (source_ids, source_ids[1:3, :3]):
        token_ids = ops.convert_to_tensor(sources)
        assert_same(compiled(token_ids), generate(transformer, token_ids, search, 5))


@pytest.mark.parametrize("search", SEARCHES)
def test_the_shape_of_a_result(transformer: Any, source_ids: np.ndarray, search: Search) -> None:
    token_ids, scores = generate(transformer, ops.convert_to_tensor(source_ids), search, 4)
    assert tuple(token_ids.shape) == (5, search.beam_size, 4)
    assert tuple(scores.shape) == (5, search.beam_size)
    assert keras.backend.standardize_dtype(token_ids.dtype) == "int32"
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"


@pytest.mark.parametrize("rules", [{"no_repeat_ngram_size": 2}, {"banned_token_ids": (4,)}])
def test_rules_do_not_make_a_prefix_less_likely(table_model: Any, rules: dict[str, Any]) -> None:
    steps = {
        2: {4: 1.0},
        4: {4: 0.5, 5: 0.3, 3: 0.2},
        5: {3: 0.9, 6: 0.1},
        6: {7: 1.0},
        7: {8: 1.0},
        8: {3: 1.0},
    }
    model, source, prefix = table_model(steps, 9), np.zeros((1, 1), "int32"), np.array([[4, 4, 4, 5]])
    search = BeamSearch(3, exhaustive=True, constraints=Constraints(**rules))
    result = generate(model, source, search, 10, prefix_ids=prefix)
    free = generate(model, source, BeamSearch(3, exhaustive=True), 10, prefix_ids=prefix)
    assert ops.convert_to_numpy(result.token_ids)[0, 0].tolist() == [4, 4, 4, 5, 3, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(
        ops.convert_to_numpy(result.scores)[0, 0], ops.convert_to_numpy(free.scores)[0, 0], rtol=1e-5
    )


@pytest.mark.parametrize("prefix", [[99], [4, -1]])
def test_prefixes_outside_the_vocabulary_are_refused(transformer: Any, prefix: list[int]) -> None:
    with pytest.raises(ValueError, match=r"`prefix_ids` must be at least 0 and below vocabulary_size=\d+\."):
        generate(transformer, np.ones((1, 2), "int32"), GreedySearch(), 5, prefix_ids=np.array([prefix]))


@pytest.mark.parametrize("dtype", ["mixed_float16", "float16", "mixed_bfloat16"])
@pytest.mark.parametrize("search", SEARCHES)
def test_half_precision(source_ids: np.ndarray, search: Search, dtype: str) -> None:
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
    model = kt.Transformer(int(source_ids.max()) + 1, 9, dtype=dtype, **sizes)
    scores = ops.convert_to_numpy(generate(model, source_ids, search, 5).scores)
    expected = ops.convert_to_numpy(generate(model.with_dtype("float32"), source_ids, search, 5).scores)
    np.testing.assert_allclose(scores, expected, atol=0.2)


def test_lists_are_sources_too(transformer: Any) -> None:
    rows = [[4, 5, 3], [6, 3, 0]]
    expected = generate(transformer, np.array(rows), GreedySearch(), 5)
    assert_same(generate(transformer, rows, GreedySearch(), 5), expected)
    with pytest.raises(ValueError, match=r"one length, padded with 0\. Received: lists of different lengths"):
        generate(transformer, [[4, 5, 3], [6, 3]], GreedySearch(), 5)


@pytest.mark.parametrize(
    ("sources", "received"),
    [([4, 5, 3], r"shape=\(3,\)"), (np.zeros((1, 2, 3, 4)), "shape="), ("abc", "str")],
)
def test_what_is_no_batch_of_sources_is_refused(transformer: Any, sources: Any, received: str) -> None:
    with pytest.raises(
        ValueError, match=rf"token ids \(b, s\) or features \(b, s, w\)\. Received: {received}"
    ):
        generate(transformer, sources, GreedySearch(), 5)


@pytest.mark.parametrize("kind", ["CausalLM", "EncoderModel", "list"])
def test_a_model_without_an_encoder_is_refused(kind: str) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
    arguments = {"CausalLM": (8,), "EncoderModel": (8, 3)}.get(kind)
    model = [] if arguments is None else getattr(kt, kind)(*arguments, **sizes)
    message = rf"with an encoder, such as a `Transformer`; `decoding\.complete` .* Received: {kind}\."
    with pytest.raises(TypeError, match=message):
        generate(model, np.ones((1, 2), "int32"), GreedySearch(), 5)


def test_more_tokens_than_positions_are_refused() -> None:
    model = kt.Transformer(
        9, 9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, positions="learned", max_length=6
    )
    assert generate(model, [[4, 5, 3]], GreedySearch(), 6).token_ids.shape == (1, 1, 6)
    with pytest.raises(ValueError, match=r"Received: 7 tokens, a model with max_length=6\."):
        generate(model, [[4, 5, 3]], GreedySearch(), 7)
