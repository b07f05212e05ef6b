"""Tokens that are streamed are those that are found at once."""

from typing import Any

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.backend import compile_function
from keras_transformer.decoding import BeamSearch, GreedySearch, generate
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.generation import TokenStreamer, stream
from keras_transformer.decoding.sampling import SampleSearch

SEARCHES = [
    GreedySearch(),
    GreedySearch(constraints=Constraints(max_length_ratio=1.5, max_length_offset=2)),
    SampleSearch(1.3, top_k=5, seed=3, constraints=Constraints(no_repeat_ngram_size=2)),
]
SOURCES = np.arange(5, dtype="int32")[:, None]
ONE_SOURCE = np.zeros((1, 1), "int32")


@pytest.mark.parametrize("search", SEARCHES)
def test_streamed_tokens_are_those_of_the_search(recurrent_model: Any, search: Any) -> None:
    model = recurrent_model(5, 7, seed=2)
    streamer = TokenStreamer(model, search, 7)
    for sources in (SOURCES, SOURCES[1:3], SOURCES[:1]):
        steps = list(streamer(sources))
        assert all(step.shape == (len(sources),) and step.dtype == np.int32 for step in steps)
        expected = generate(model, ops.convert_to_tensor(sources), search, 7)
        expected_ids = ops.convert_to_numpy(expected.token_ids)[:, 0]
        np.testing.assert_array_equal(np.stack(steps, axis=1), expected_ids[:, : len(steps)])
        assert not expected_ids[:, len(steps) :].any(), "nothing but padding follows"


def test_a_transformer_is_streamed(transformer: Any, source_ids: np.ndarray) -> None:
    streamed = np.stack(list(stream(transformer, source_ids, max_length=3)), axis=1)
    compiled = compile_function(lambda ids: generate(transformer, ids, GreedySearch(), 3).token_ids)
    expected_ids = ops.convert_to_numpy(compiled(ops.convert_to_tensor(source_ids)))[:, 0]
    np.testing.assert_array_equal(streamed, expected_ids[:, : streamed.shape[1]])


def test_tokens_come_before_the_answer_is_complete(table_model: Any) -> None:
    steps = stream(table_model({2: {4: 1.0}, 4: {4: 1.0}}, 6), ONE_SOURCE, max_length=1000)
    assert [next(steps).tolist() for _ in range(3)] == [[4], [4], [4]]


def test_it_stops_when_every_row_has_ended(table_model: Any) -> None:
    model = table_model({2: {4: 0.6, 5: 0.4}, 4: {5: 1.0}, 5: {3: 1.0}}, 6)
    steps = [step.tolist() for step in stream(model, np.repeat(ONE_SOURCE, 2, axis=0), max_length=9)]
    assert steps == [[4, 4], [5, 5], [3, 3]]


def test_it_stops_at_the_longest_length(table_model: Any) -> None:
    model = table_model({2: {4: 1.0}, 4: {4: 1.0}}, 6)
    assert [step.tolist() for step in stream(model, ONE_SOURCE, max_length=2)] == [[4], [4]]


def test_without_a_seed_each_stream_is_another(recurrent_model: Any) -> None:
    streamer = TokenStreamer(recurrent_model(5, 7, seed=1), SampleSearch(2.0), 8)
    answers = {tuple(step.item() for step in streamer(ONE_SOURCE)) for _ in range(8)}
    assert len(answers) > 1


class CountingModel:
    """Writes the number of positions that the mask allows."""

    def create_cache(
        self, sources: Any, max_length: int, beam_size: int = 1, padding_mask: Any = None
    ) -> Any:
        return ops.sum(ops.cast(padding_mask, "int32"), axis=1)

    def decode_step(self, token_ids: Any, position: Any, cache: Any) -> tuple[Any, Any]:
        return ops.one_hot(cache, 9), cache


def test_a_mask_reaches_the_model() -> None:
    mask = np.arange(8) < np.array([[5], [7]])
    steps = stream(CountingModel(), np.ones((2, 8), "int32"), max_length=5, padding_mask=mask)
    assert next(steps).tolist() == [5, 7]


def test_a_search_of_several_hypotheses_is_refused(table_model: Any) -> None:
    with pytest.raises(ValueError, match=r"Received: BeamSearch, beam_size=3\."):
        TokenStreamer(table_model({}, 6), BeamSearch(3))


def test_a_beam_of_one_is_refused_too(table_model: Any) -> None:
    with pytest.raises(ValueError, match=r"Received: BeamSearch, beam_size=1\."):
        TokenStreamer(table_model({}, 6), BeamSearch(1))


def test_more_tokens_than_positions_are_refused() -> None:
    model = kt.Transformer(
        9, 9, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=8, positions="learned", max_length=6
    )
    with pytest.raises(ValueError, match=r"Received: 256 tokens, a model with max_length=6\."):
        TokenStreamer(model)
