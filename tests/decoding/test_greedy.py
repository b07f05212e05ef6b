"""Greedy search over scripted models, by hand."""

from typing import Any

import numpy as np
import pytest
from keras import ops

from helpers import GreedySearch
from keras_transformer.decoding import generate
from keras_transformer.types import SpecialIds

ONE_SOURCE = np.zeros((1, 1), "int32")


def decode(model: Any, max_length: int, source: np.ndarray = ONE_SOURCE, **options: Any) -> Any:
    """Token ids `(b, T)` and scores `(b,)`."""
    result = generate(model, ops.convert_to_tensor(source), GreedySearch(**options), max_length)
    token_ids, scores = map(ops.convert_to_numpy, result)
    assert token_ids.shape == (len(source), 1, max_length)
    assert scores.shape == (len(source), 1)
    return token_ids[:, 0], scores[:, 0]


def test_it_takes_the_most_likely_token_until_the_end(table_model: Any) -> None:
    model = table_model({2: {4: 0.6, 5: 0.4}, 4: {5: 0.7, 3: 0.3}, 5: {3: 0.9, 4: 0.1}}, 6)
    token_ids, scores = decode(model, 5)
    np.testing.assert_array_equal(token_ids, [[4, 5, 3, 0, 0]])
    np.testing.assert_allclose(scores, [np.log(0.6 * 0.7 * 0.9)], rtol=1e-5)


def test_the_length_penalty_counts_the_end_token(table_model: Any) -> None:
    model = table_model({2: {4: 0.5, 5: 0.3, 3: 0.2}, 4: {3: 1.0}}, 6)
    _, scores = decode(model, 5, length_penalty=2.0)
    np.testing.assert_allclose(scores, [np.log(0.5) / (7 / 6) ** 2], rtol=1e-5)


def test_it_stops_at_the_longest_length(table_model: Any) -> None:
    model = table_model({2: {4: 0.8, 5: 0.2}, 4: {4: 0.9, 3: 0.1}}, 6)
    token_ids, scores = decode(model, 3, length_penalty=1.0)
    np.testing.assert_array_equal(token_ids, [[4, 4, 4]])
    np.testing.assert_allclose(scores, [np.log(0.8 * 0.9 * 0.9) / (8 / 6)], rtol=1e-5)


def test_banned_tokens_are_never_taken(table_model: Any) -> None:
    model = table_model({2: {0: 0.3, 1: 0.25, 2: 0.25, 4: 0.2}, 4: {1: 0.9, 3: 0.1}}, 5)
    token_ids, scores = decode(model, 4)
    np.testing.assert_array_equal(token_ids, [[4, 3, 0, 0]])
    np.testing.assert_allclose(scores, [np.log(0.2 * 0.1)], rtol=1e-5)


def test_special_ids_can_be_others(table_model: Any) -> None:
    model = table_model({5: {0: 0.9, 3: 0.1}, 3: {1: 1.0}}, 6)
    token_ids, _ = decode(model, 3, special_ids=SpecialIds(pad=4, unknown=0, start=5, end=1))
    np.testing.assert_array_equal(token_ids, [[3, 1, 4]])


@pytest.mark.parametrize("seed", range(3))
def test_rows_do_not_change_each_other(recurrent_model: Any, seed: int) -> None:
    model = recurrent_model(6, 7, seed)
    sources = np.arange(6, dtype="int32")[:, None]
    token_ids, scores = decode(model, 8, sources)
    assert len({(row == 0).sum() for row in token_ids}) > 1, "rows should end at different steps"
    for source, ids, score in zip(sources, token_ids, scores, strict=True):
        ids_alone, score_alone = decode(model, 8, source[None])
        np.testing.assert_array_equal(ids_alone[0], ids)
        np.testing.assert_allclose(score_alone[0], score, rtol=1e-5)
        tokens = ids[: list(ids).index(3) + 1] if 3 in ids else ids
        assert score == pytest.approx(model.log_probability(int(source[0]), [2, *tokens]), rel=1e-4)
