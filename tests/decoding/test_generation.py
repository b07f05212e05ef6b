"""Decoding with a model: the cache, batches, and compiled code change nothing; and prompts count."""

import dataclasses
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from helpers import BeamSearch, GreedySearch, talkative
from keras_transformer._backend import compile_function
from keras_transformer.decoding import Constraints, generate, stream_tokens
from keras_transformer.types import SpecialIds

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

    def start_decoding(self, inputs: Any, max_length: int, beam_size: int = 1, **options: Any) -> Any:
        sources = ops.repeat(inputs, beam_size, axis=0)
        return self.decode_step, PrefixCache(sources, ops.zeros((sources.shape[0], max_length), "int32"))

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
def test_the_cache_changes_nothing(transformer: Any, source_ids: np.ndarray, search: Any) -> None:
    sources = ops.convert_to_tensor(source_ids)
    cached = generate(transformer, sources, search, 5)
    best = ops.convert_to_numpy(cached.token_ids)[:, 0]
    assert len(np.unique(best, axis=0)) > 1, "answers should differ"
    assert_same(cached, generate(UncachedModel(transformer), sources, search, 5))


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
def test_rows_do_not_change_each_other(transformer: Any, source_ids: np.ndarray, search: Any) -> None:
    compiled = compile_function(lambda ids: generate(transformer, ids, search, 7))
    token_ids, scores = compiled(ops.convert_to_tensor(source_ids))
    for row, source in enumerate(source_ids):
        alone = compiled(ops.convert_to_tensor(source[source != 0][None]))
        assert_same(alone, (token_ids[row : row + 1], scores[row : row + 1]))


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
def test_each_source_may_have_its_length_penalty(
    transformer: Any, source_ids: np.ndarray, search: Any
) -> None:
    penalties = np.linspace(0, 2, len(source_ids), dtype="float32")
    sources = ops.convert_to_tensor(source_ids)
    result = generate(transformer, sources, search, 5, length_penalties=ops.convert_to_tensor(penalties))
    alone = [dataclasses.replace(search, length_penalty=float(penalty)) for penalty in penalties]
    rows = [generate(transformer, sources[i : i + 1], each, 5) for i, each in enumerate(alone)]
    assert_same(result, [ops.concatenate(part, axis=0) for part in zip(*rows, strict=True)])


def test_lengths_of_sources_need_a_graph_for_any_batch(transformer: Any, source_ids: np.ndarray) -> None:
    with pytest.raises(
        ValueError, match=r"`max_lengths` must be given in a graph .* Received: batch_size=\d"
    ):
        generate(transformer, source_ids, SEARCHES[1], 5, max_lengths=np.ones(len(source_ids), "int32"))


@pytest.mark.parametrize("search", [pytest.param(SEARCHES[0], marks=pytest.mark.slow), *SEARCHES[1:]])
def test_compiled_code_gives_the_same(transformer: Any, source_ids: np.ndarray, search: Any) -> None:
    compiled = compile_function(lambda ids: generate(transformer, ids, search, 5))
    for sources in (source_ids, source_ids[1:3, :3]):
        token_ids = ops.convert_to_tensor(sources)
        assert_same(compiled(token_ids), generate(transformer, token_ids, search, 5))


@pytest.mark.parametrize("search", SEARCHES)
def test_the_shape_of_a_result(transformer: Any, source_ids: np.ndarray, search: Any) -> None:
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
    search = BeamSearch(3, early_stopping="never", constraints=Constraints(**rules))
    result = generate(model, source, search, 10, prefix_ids=prefix)
    free = generate(model, source, BeamSearch(3, early_stopping="never"), 10, prefix_ids=prefix)
    assert ops.convert_to_numpy(result.token_ids)[0, 0].tolist() == [4, 4, 4, 5, 3, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(
        ops.convert_to_numpy(result.scores)[0, 0], ops.convert_to_numpy(free.scores)[0, 0], rtol=1e-5
    )


@pytest.mark.parametrize("prefix", [[99], [4, -1]])
def test_prefixes_outside_the_vocabulary_are_refused(transformer: Any, prefix: list[int]) -> None:
    with pytest.raises(ValueError, match=r"`prefix_ids` must be at least 0 and below vocabulary_size=\d+\."):
        generate(transformer, np.ones((1, 2), "int32"), GreedySearch(), 5, prefix_ids=np.array([prefix]))


@pytest.mark.parametrize(
    "dtype",
    [
        *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("mixed_float16", "float16")),
        "mixed_bfloat16",
    ],
)
@pytest.mark.parametrize("search", [pytest.param(SEARCHES[0], marks=pytest.mark.slow), *SEARCHES[1:]])
def test_half_precision(source_ids: np.ndarray, search: Any, dtype: str) -> None:
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
    with pytest.raises(ValueError, match=r"`inputs` .* pad sources with 0; .* lists of different lengths"):
        generate(transformer, [[4, 5, 3], [6, 3]], GreedySearch(), 5)
    with pytest.raises(ValueError, match=r"`prefix_ids` .* padded with 0\. Received: lists of different"):
        generate(transformer, rows, GreedySearch(), 5, prefix_ids=[[4, 5], [4]])


@pytest.mark.parametrize("sources", [np.array([4, 5, 3]), np.zeros((1, 2, 3, 4))])
def test_what_is_no_batch_of_sources_is_refused(transformer: Any, sources: Any) -> None:
    with pytest.raises(ValueError, match=r"token ids (of shape )?\(b, s\)\. Received: shape="):
        generate(transformer, sources, GreedySearch(), 5)


def test_a_model_that_does_not_decode_is_refused() -> None:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}
    for model, name in ((kt.EncoderModel(8, 3, **sizes), "EncoderModel"), ([], "list")):
        with pytest.raises(TypeError, match=rf"`model` must decode, .* Received: {name}\."):
            generate(model, np.ones((1, 2), "int32"), GreedySearch(), 5)


def test_more_tokens_than_positions_are_refused() -> None:
    model = kt.Transformer(
        9, 9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, positions="learned", max_length=6
    )
    assert generate(model, [[4, 5, 3]], GreedySearch(), 6).token_ids.shape == (1, 1, 6)
    with pytest.raises(ValueError, match=r"Received: 7 tokens, a model with max_length=6\."):
        generate(model, [[4, 5, 3]], GreedySearch(), 7)


PROMPTS = np.array([[2, 4, 6], [2, 7, 5], [2, 1, 3], [2, 6, 4], [2, 5, 5]])


@pytest.fixture(scope="module")
def causal_lm() -> keras.Model:
    """A tiny model whose random weights are so large that different prompts have different ends."""
    model = kt.CausalLM(8, num_layers=2, hidden_dim=8, num_heads=2, intermediate_dim=16, tie_output=False)
    return talkative(model, seed=3)


def log_probabilities(model: keras.Model, token_ids: np.ndarray) -> np.ndarray:
    """Give those of each next token by the whole model without a cache: `(b, t, v)`, in NumPy."""
    logits = ops.convert_to_numpy(model(token_ids, training=False)).astype("float64")
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_greedy_search_gives_what_the_whole_model_says(causal_lm: keras.Model) -> None:
    token_ids, scores = map(ops.convert_to_numpy, generate(causal_lm, PROMPTS, GreedySearch(), 4))
    rows, totals, ended = PROMPTS, np.zeros(5), np.zeros(5, bool)
    for _ in range(4):
        following = log_probabilities(causal_lm, rows)[:, -1]
        following[:, :3] = -np.inf  # padding, unknown and start are never generated
        totals += np.where(ended, 0, following.max(axis=1))
        added = np.where(ended, 0, following.argmax(axis=1))
        rows, ended = np.concatenate([rows, added[:, None]], axis=1), ended | (added == 3)
    np.testing.assert_array_equal(token_ids[:, 0], rows[:, 3:])
    np.testing.assert_allclose(scores[:, 0], totals, rtol=1e-4)
    assert len(np.unique(token_ids, axis=0)) > 2, "continuations should differ"


def test_a_wide_beam_finds_the_most_likely_end(causal_lm: keras.Model) -> None:
    token_ids, scores = map(
        ops.convert_to_numpy, generate(causal_lm, PROMPTS, BeamSearch(5, length_penalty=0), 2)
    )
    first = log_probabilities(causal_lm, PROMPTS)[:, -1]
    longer = np.concatenate([np.repeat(PROMPTS, 4, axis=0), np.tile(np.arange(4, 8), 5)[:, None]], axis=1)
    second = log_probabilities(causal_lm, longer)[:, -1].reshape(5, 4, 8)
    for row in range(5):
        totals = {(3, 0): first[row, 3]} | {
            (a, 3): first[row, a] + second[row, a - 4, 3] for a in range(4, 8)
        }
        best = max(totals, key=totals.get)
        assert tuple(token_ids[row, 0]) == best
        assert scores[row, 0] == pytest.approx(totals[best], rel=1e-4)


def test_the_start_token_alone_asks_for_a_whole_text(causal_lm: keras.Model) -> None:
    token_ids, scores = map(ops.convert_to_numpy, generate(causal_lm, [[2]], GreedySearch(), 6))
    tokens = np.concatenate([[2], token_ids[0, 0][token_ids[0, 0] > 0]])[None]
    following = log_probabilities(causal_lm, tokens[:, :-1])[0]
    assert scores[0, 0] == pytest.approx(following[np.arange(tokens.size - 1), tokens[0, 1:]].sum(), rel=1e-4)


@pytest.mark.parametrize("search", SEARCHES)
def test_prompts_do_not_change_each_other(causal_lm: keras.Model, search: Any) -> None:
    together = generate(causal_lm, PROMPTS, search, 4)
    alone = generate(causal_lm, PROMPTS[1:2], search, 4)
    for result, expected in zip(alone, together, strict=True):
        np.testing.assert_allclose(
            ops.convert_to_numpy(result), ops.convert_to_numpy(expected)[1:2], rtol=1e-4, atol=1e-5
        )


def test_a_longer_prompt_goes_on_where_a_shorter_one_was_heading(causal_lm: keras.Model) -> None:
    best = ops.convert_to_numpy(generate(causal_lm, PROMPTS, GreedySearch(), 3).token_ids)[:, 0]
    running = ~np.any(best[:, :2] == 3, axis=1)
    longer = np.concatenate([PROMPTS, best[:, :1]], axis=1)
    continued = generate(causal_lm, longer, GreedySearch(), 2).token_ids
    assert running.any()
    np.testing.assert_array_equal(ops.convert_to_numpy(continued)[running, 0], best[running, 1:])


@pytest.mark.slow
def test_compiled_code_continues_alike(causal_lm: keras.Model) -> None:
    search = BeamSearch(3)
    compiled = compile_function(lambda ids: generate(causal_lm, ops.reshape(ids, (-1, 3)), search, 4))
    prompts = ops.convert_to_tensor(PROMPTS, "int32")
    for result, expected in zip(compiled(prompts), generate(causal_lm, prompts, search, 4), strict=True):
        np.testing.assert_allclose(
            ops.convert_to_numpy(result), ops.convert_to_numpy(expected), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    ("prompts", "error", "message"),
    [
        (np.array([2, 4]), ValueError, r"Prompts must be integers of shape \(b, p\).* shape=\(2,\)"),
        (np.zeros((3, 0), "int32"), ValueError, r"above zero. Received: shape=\(3, 0\)"),
        (np.array([[2.0, 4.0]], "float32"), TypeError, r"Prompts must be integers.* dtype=float32"),
    ],
)
def test_other_prompts_are_refused(
    causal_lm: keras.Model, prompts: np.ndarray, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        generate(causal_lm, prompts, GreedySearch(), 3)


def test_a_prompt_has_neither_padding_nor_length_ratios(causal_lm: keras.Model) -> None:
    with pytest.raises(ValueError, match="needs a model with an encoder"):
        generate(causal_lm, PROMPTS, GreedySearch(), 3, padding_mask=PROMPTS > 0)
    with pytest.raises(ValueError, match="Length ratios need sources"):
        generate(causal_lm, PROMPTS, GreedySearch(constraints=Constraints(min_length_ratio=1.0)), 3)


def test_continuations_can_have_a_prefix(causal_lm: keras.Model) -> None:
    forced = generate(causal_lm, PROMPTS, BeamSearch(2), 4, prefix_ids=np.full((5, 1), 6))
    assert (ops.convert_to_numpy(forced.token_ids)[:, 0, 0] == 6).all()
    with pytest.raises(ValueError, match=r"`prefix_ids` must be at least 0 and below vocabulary_size=8\."):
        generate(causal_lm, PROMPTS, GreedySearch(), 4, prefix_ids=np.full((5, 1), 8))


def test_lists_are_prompts_too(causal_lm: keras.Model) -> None:
    lists, arrays = (generate(causal_lm, ids, GreedySearch(), 3) for ids in (PROMPTS.tolist(), PROMPTS))
    np.testing.assert_array_equal(*map(ops.convert_to_numpy, (lists.token_ids, arrays.token_ids)))


def test_more_tokens_than_positions_are_refused_with_a_prompt() -> None:
    model = kt.CausalLM(
        9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, positions="learned", max_length=6
    )
    assert generate(model, [[2, 5, 5]], GreedySearch(), 4).token_ids.shape == (1, 1, 4)
    with pytest.raises(ValueError, match=r"Received: 7 tokens, a model with max_length=6\."):
        generate(model, [[2, 5, 5]], GreedySearch(), 5)


@pytest.mark.parametrize("kind", ["GreedySearch", "BeamSearch", "SampleSearch"])
def test_no_ids_are_taken_for_granted(transformer: Any, kind: str) -> None:
    """A model that was trained with other ids would make rubbish."""
    with pytest.raises(ValueError, match=rf"`special_ids` must say .* as in {kind}\(\.\.\., special_ids="):
        generate(transformer, [[4, 5, 3]], getattr(kt.decoding, kind)(), 5)


def test_other_ids(transformer: Any) -> None:
    """With ids that change places, a model whose logits do too finds the same outputs."""
    order = np.array([0, 1, 3, 2, *range(4, 8)])  # start and end
    plain = generate(transformer, [[4, 5, 3]], GreedySearch(), 5)
    other = kt.Transformer.from_config(transformer.get_config())
    other.set_weights(transformer.get_weights())
    table, kernel = other.target_embedding.embeddings, other.output_projection.dense.kernel
    table.assign(ops.take(table, order, axis=0))
    kernel.assign(ops.take(kernel, order, axis=1))
    ids = SpecialIds(start=3, end=2)
    found = generate(other, [[4, 5, 3]], kt.decoding.GreedySearch(special_ids=ids), 5)
    np.testing.assert_array_equal(order[ops.convert_to_numpy(found.token_ids)], plain.token_ids)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (found.scores, plain.scores)), rtol=1e-5)


@pytest.mark.slow
def test_a_quantized_model_decodes_nearly_as_it_did(source_ids: np.ndarray) -> None:
    keras.utils.set_random_seed(0)
    model = kt.Transformer(9, 8, num_layers=2, hidden_dim=16, num_heads=2, intermediate_dim=32)
    plain = generate(model, source_ids, GreedySearch(), 5)
    model.quantize("int8")
    found = generate(model, source_ids, GreedySearch(), 5)
    np.testing.assert_array_equal(found.token_ids, plain.token_ids)
    differences = np.abs(ops.convert_to_numpy(found.scores) - ops.convert_to_numpy(plain.scores))
    assert 0 < differences.max() < 0.1


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="other backends record no gradient here")
@pytest.mark.parametrize("search", SEARCHES)
def test_scores_keep_no_gradient(transformer: Any, source_ids: np.ndarray, search: Any) -> None:
    assert not generate(transformer, source_ids, search, 5).scores.requires_grad


def test_a_stream_takes_what_generate_takes(transformer: Any, source_ids: np.ndarray) -> None:
    prefixes = [[4]] * len(source_ids)
    wanted = generate(transformer, source_ids, GreedySearch(), 5, prefix_ids=prefixes)
    stream = stream_tokens(transformer, GreedySearch(), 5)
    inputs = {"encoder_token_ids": source_ids, "decoder_token_ids": source_ids}
    token_ids = np.stack([*stream(inputs, prefix_ids=prefixes)], axis=1)
    np.testing.assert_array_equal(
        token_ids, ops.convert_to_numpy(wanted.token_ids)[:, 0, : token_ids.shape[1]]
    )
    with pytest.raises(ValueError, match="prefix_ids"):
        next(stream(source_ids, prefix_ids=[[99]] * len(source_ids)))


@pytest.mark.parametrize(
    "kind",
    [
        "ensemble",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("ids", "frames", "frames without a mask")),
    ],
)
def test_what_fit_takes_is_taken(kind: str) -> None:
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8}
    keras.utils.set_random_seed(0)
    rng, mask = np.random.default_rng(0), None
    if kind.startswith("frames"):
        model = kt.Transformer(None, 9, encoder_feature_dim=3, **sizes)
        source = rng.normal(size=(2, 4, 3)).astype("float32")
        mask = np.array([[1, 1, 0, 0], [1, 1, 1, 1]]) if kind == "frames" else None
        inputs = {"encoder_features": source, **({} if mask is None else {"encoder_padding_mask": mask})}
    else:
        model = kt.Transformer(9, 9, **sizes)
        source = rng.integers(4, 9, (2, 4))
        inputs = {"encoder_token_ids": source}
        model = kt.models.Ensemble([model, kt.Transformer(9, 9, **sizes)]) if kind == "ensemble" else model
    inputs["decoder_token_ids"] = labels = rng.integers(4, 9, (2, 5))
    if kind != "ensemble":
        kt.training.compile_model(model, 1e-3)
        model.fit(inputs, labels, verbose=0)
    search = GreedySearch()
    assert_same(generate(model, inputs, search, 5), generate(model, source, search, 5, padding_mask=mask))


@pytest.mark.parametrize("inputs", [{}, {"token_ids": [[4]]}, {"encoder_token_ids": [[4]], "other": 1}])
def test_a_dictionary_of_other_names_is_refused(inputs: Any, transformer: Any) -> None:
    with pytest.raises(ValueError, match=r"`inputs` must be an array, or have the key 'encoder_token_ids'\."):
        generate(transformer, inputs, GreedySearch(), 5)
