"""Scores of given targets: by hand, and against what a search says of its own answers."""

import keras
import numpy as np
import pytest

from keras_transformer.decoding import BeamSearch, GreedySearch, generate, length_penalty
from keras_transformer.decoding.scoring import score_targets


def test_hand_computed() -> None:
    rows = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25] * 4, [0.7, 0.1, 0.1, 0.1]]
    probabilities = np.array(rows)

    def model(inputs: dict) -> np.ndarray:
        return np.log(probabilities)[inputs["decoder_token_ids"]]

    result = score_targets(model, [[5, 3], [3, 0]], [[2, 1, 2, 3], [1, 3, 0, 0]])
    # 2 -> 1 (0.25), 1 -> 2 (0.2), 2 -> 3 (0.25); and 1 -> 3 (0.1), then padding.
    wanted = [np.log(0.25) + np.log(0.2) + np.log(0.25), np.log(0.1)]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(result.log_probabilities), wanted, rtol=1e-6)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(result.num_tokens), [3, 1])


def test_impossible_padding_changes_nothing() -> None:
    def model(inputs: dict) -> np.ndarray:
        return np.broadcast_to(np.array([-np.inf, 0.0, 0.0, 0.0], "float32"), (1, 2, 4))

    result = score_targets(model, [[5, 3]], [[2, 3, 0]])
    assert float(result.log_probabilities[0]) == pytest.approx(-np.log(3))


@pytest.mark.parametrize("search", [GreedySearch(length_penalty=0.7), BeamSearch(3, length_penalty=0.7)])
def test_hypotheses_score_as_the_search_said(
    search: object, transformer: keras.Model, source_ids: np.ndarray
) -> None:
    result = generate(transformer, source_ids, search, max_length=7)
    hypotheses = keras.ops.convert_to_numpy(result.token_ids)  # (b, n, T)
    said = keras.ops.convert_to_numpy(result.scores)
    for rank in range(hypotheses.shape[1]):
        token_ids = np.pad(hypotheses[:, rank], [(0, 0), (1, 0)], constant_values=2)
        scored = score_targets(transformer, source_ids, token_ids)
        penalty = length_penalty(scored.num_tokens, 0.7)
        scores = keras.ops.convert_to_numpy(scored.log_probabilities / penalty)
        np.testing.assert_allclose(scores, said[:, rank], atol=1e-4)


def test_padding_changes_nothing(transformer: keras.Model, source_ids: np.ndarray) -> None:
    token_ids = np.array([[2, 4, 5, 3]] * 5)
    alone = score_targets(transformer, source_ids, token_ids)
    padded = score_targets(
        transformer, np.pad(source_ids, [(0, 0), (0, 3)]), np.pad(token_ids, [(0, 0), (0, 2)])
    )
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(padded.log_probabilities),
        keras.ops.convert_to_numpy(alone.log_probabilities),
        atol=1e-5,
    )
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(padded.num_tokens), [3] * 5)
