"""Tokens that are streamed are those that are found at once."""

from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import BeamSearch, GreedySearch, generate
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.sample_search import SampleSearch
from keras_transformer.decoding.streaming import TokenStreamer, stream

SEARCHES = [
    GreedySearch(),
    SampleSearch(1.3, top_k=5, seed=3, constraints=Constraints(no_repeat_ngram_size=2)),
]
ONE_SOURCE = np.zeros((1, 1), "int32")


@pytest.mark.parametrize("search", SEARCHES)
def test_streamed_tokens_are_those_of_the_search(
    transformer: Any, source_ids: np.ndarray, search: Any
) -> None:
    streamer = TokenStreamer(transformer, search, 7)
    for sources in (source_ids, source_ids[1:3, :3], source_ids[:1]):
        steps = list(streamer(sources))
        assert all(step.shape == (len(sources),) and step.dtype == np.int32 for step in steps)
        expected = generate(transformer, ops.convert_to_tensor(sources), search, 7)
        expected_ids = ops.convert_to_numpy(expected.token_ids)[:, 0]
        np.testing.assert_array_equal(np.stack(steps, axis=1), expected_ids[:, : len(steps)])
        assert not expected_ids[:, len(steps) :].any(), "nothing but padding follows"


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


def test_a_mask_reaches_the_model(transformer: Any, source_ids: np.ndarray) -> None:
    mask = source_ids != 0
    mask[:, 0] = False
    streamed = np.stack(list(stream(transformer, source_ids, max_length=5, padding_mask=mask)), axis=1)
    sources = ops.convert_to_tensor(source_ids)
    expected = generate(transformer, sources, GreedySearch(), 5, padding_mask=ops.convert_to_tensor(mask))
    expected_ids = ops.convert_to_numpy(expected.token_ids)[:, 0, : streamed.shape[1]]
    np.testing.assert_array_equal(streamed, expected_ids)


def test_a_search_of_several_hypotheses_is_refused(table_model: Any) -> None:
    with pytest.raises(ValueError, match=r"Received: BeamSearch, beam_size=3\."):
        TokenStreamer(table_model({}, 6), BeamSearch(3))
