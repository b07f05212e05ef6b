"""Scores and attention of given targets: by hand, and against what a search says of its own outputs."""

import keras
import numpy as np
import pytest

from helpers import BeamSearch, GreedySearch, array, score_targets, score_tokens, target_attention
from keras_transformer.decoding import generate


def test_hand_computed() -> None:
    rows = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25] * 4, [0.7, 0.1, 0.1, 0.1]]
    probabilities = np.array(rows)

    def model(inputs: dict) -> np.ndarray:
        return np.log(probabilities)[inputs["decoder_token_ids"]]

    result = score_targets(model, [[5, 3], [3, 0]], [[1, 2, 3], [3, 0, 0]])
    # start -> 1 (0.25), 1 -> 2 (0.2), 2 -> 3 (0.25); and start -> 3 (0.25), then padding.
    wanted = [np.log(0.25) + np.log(0.2) + np.log(0.25), np.log(0.25)]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(result[0]), wanted, rtol=1e-6)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(result[1]), [3, 1])


def test_impossible_padding_changes_nothing() -> None:
    def model(inputs: dict) -> np.ndarray:
        return np.broadcast_to(np.array([-np.inf, 0.0, 0.0, 0.0], "float32"), (1, 2, 4))

    result = score_targets(model, [[5, 3]], [[3, 0]])
    assert float(result[0][0]) == pytest.approx(-np.log(3))


@pytest.mark.parametrize("search", [GreedySearch(length_penalty=0.7), BeamSearch(3, length_penalty=0.7)])
def test_hypotheses_score_as_the_search_said(
    search: object, transformer: keras.Model, source_ids: np.ndarray
) -> None:
    result = generate(transformer, source_ids, search, max_length=7)
    hypotheses = keras.ops.convert_to_numpy(result.token_ids)  # (b, n, T)
    said = keras.ops.convert_to_numpy(result.scores)
    for rank in range(hypotheses.shape[1]):
        log_probabilities, num_tokens = map(
            keras.ops.convert_to_numpy, score_targets(transformer, source_ids, hypotheses[:, rank])
        )
        scores = log_probabilities / ((5 + num_tokens) / 6) ** 0.7
        np.testing.assert_allclose(scores, said[:, rank], atol=1e-4)


def test_padding_changes_nothing(transformer: keras.Model, source_ids: np.ndarray) -> None:
    token_ids = np.array([[4, 5, 3]] * 5)
    alone = score_targets(transformer, source_ids, token_ids)
    padded = score_targets(
        transformer, np.pad(source_ids, [(0, 0), (0, 3)]), np.pad(token_ids, [(0, 0), (0, 2)])
    )
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(padded[0]), keras.ops.convert_to_numpy(alone[0]), atol=1e-5
    )
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(padded[1]), [3] * 5)


def test_tokens_are_scored_as_numpy_scores_them(transformer: keras.Model, source_ids: np.ndarray) -> None:
    given = np.array([0, 1, 0, 2, 0])
    found = score_tokens(transformer, source_ids, TARGETS, num_alternatives=3, num_given=given)
    shifted = np.pad(TARGETS[:, :-1], [(0, 0), (1, 0)], constant_values=2)
    inputs = {"encoder_token_ids": source_ids, "decoder_token_ids": shifted}
    logits = array(transformer(inputs)).astype("float64")
    wanted = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    is_scored = (TARGETS != 0) & (np.arange(4) >= given[:, None])
    np.testing.assert_array_equal(array(found.is_scored), is_scored)
    chosen = np.take_along_axis(wanted, TARGETS[..., None], -1)[..., 0]
    np.testing.assert_allclose(array(found.log_probabilities), np.where(is_scored, chosen, 0), atol=1e-5)
    order = np.argsort(-wanted, axis=-1)[..., :3]
    np.testing.assert_array_equal(array(found.alternative_ids), np.where(is_scored[..., None], order, 0))
    best = np.take_along_axis(wanted, order, -1)
    np.testing.assert_allclose(
        array(found.alternative_log_probabilities), np.where(is_scored[..., None], best, 0), atol=1e-5
    )
    sums, counts = score_targets(transformer, source_ids, TARGETS, num_given=given)
    np.testing.assert_allclose(array(found.log_probabilities).sum(1), array(sums), atol=1e-5)
    np.testing.assert_array_equal(is_scored.sum(1), array(counts))


def test_greedy_tokens_are_the_best_and_sum_to_their_score(
    transformer: keras.Model, source_ids: np.ndarray
) -> None:
    token_ids, scores = map(array, generate(transformer, source_ids, GreedySearch(), max_length=7))
    found = score_tokens(transformer, source_ids, token_ids[:, 0], num_alternatives=4)
    np.testing.assert_allclose(array(found.log_probabilities).sum(1), scores[:, 0], atol=1e-4)
    # A search never generates padding, the start token and the unknown token.
    alternatives = array(found.alternative_ids)
    is_generated = alternatives >= 3
    first = np.take_along_axis(alternatives, is_generated.argmax(-1)[..., None], -1)[..., 0]
    np.testing.assert_array_equal(first, token_ids[:, 0])


@pytest.mark.parametrize("num", [-1, 1.5])
def test_other_numbers_of_alternatives_are_refused(
    transformer: keras.Model, source_ids: np.ndarray, num: float
) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"Received: num_alternatives={num}"):
        score_tokens(transformer, source_ids, TARGETS, num_alternatives=num)


TARGETS = np.array([[4, 5, 3, 0], [6, 3, 0, 0], [3, 0, 0, 0], [7, 4, 5, 3], [4, 4, 3, 0]])


@pytest.mark.slow
def test_attention_is_that_of_the_model(transformer: keras.Model, source_ids: np.ndarray) -> None:
    inputs = {"encoder_token_ids": source_ids, "decoder_token_ids": [[2, *ids[:-1]] for ids in TARGETS]}
    wanted = transformer.attention_scores({name: np.array(ids) for name, ids in inputs.items()})
    found = target_attention(transformer, source_ids, TARGETS.tolist())
    assert found.keys() == wanted.keys()
    for name, scores in found.items():
        np.testing.assert_array_equal(array(scores), array(wanted[name]))


def test_the_attention_of_each_token_sums_to_one(transformer: keras.Model, source_ids: np.ndarray) -> None:
    attention = array(target_attention(transformer, source_ids, TARGETS)["decoder/layer_2/cross_attention"])
    assert attention.shape == (5, 2, 4, 6)
    np.testing.assert_allclose(attention.sum(-1).mean(1)[TARGETS != 0], 1.0, atol=1e-6)
    assert not attention.mean((1, 2))[source_ids == 0].any()


def test_a_row_does_not_depend_on_what_follows(transformer: keras.Model, source_ids: np.ndarray) -> None:
    changed = TARGETS.copy()
    changed[:, 2] = 6
    actual, expected = (
        array(target_attention(transformer, source_ids, ids)["decoder/layer_2/cross_attention"])
        for ids in (changed, TARGETS)
    )
    np.testing.assert_allclose(actual[:, :, :2], expected[:, :, :2], atol=1e-6)


class Spy:
    """Keeps the inputs that a model is called with."""

    def __call__(self, inputs: dict) -> np.ndarray:
        self.inputs = {name: keras.ops.convert_to_numpy(values) for name, values in inputs.items()}
        return np.zeros((*inputs["decoder_token_ids"].shape, 9), "float32")


def test_the_decoder_reads_the_target_shifted_by_one() -> None:
    spy = Spy()
    score_targets(spy, [[5, 3]], [[7, 3, 0]])
    assert set(spy.inputs) == {"encoder_token_ids", "decoder_token_ids"}
    np.testing.assert_array_equal(spy.inputs["decoder_token_ids"], [[2, 7, 3]])


def test_features_go_with_their_mask() -> None:
    spy, features = Spy(), np.zeros((1, 2, 3), "float32")
    score_targets(spy, features, [[3]])
    assert set(spy.inputs) == {"encoder_features", "decoder_token_ids"}
    score_targets(spy, features, [[3]], padding_mask=np.array([[1, 0]]))
    np.testing.assert_array_equal(spy.inputs["encoder_padding_mask"], [[1, 0]])


@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        (np.zeros((1, 0), "int32"), ValueError, r"at least one token\. Received: shape=\(1, 0\)\."),
        ([4, 3], ValueError, r"Received: shape=\(2,\)\."),
        (np.ones((1, 3), "float32"), TypeError, r"`target_ids` must be integers\. Received: dtype=float32\."),
        ([[2, 4, 3]], ValueError, r"must not begin with the start token\. Received: .*\[\[2, 4, 3\]\]\."),
    ],
)
def test_other_targets_are_refused(
    transformer: keras.Model, targets: object, error: type[Exception], message: str
) -> None:
    for function in (score_targets, target_attention):
        with pytest.raises(error, match=message):
            function(transformer, [[5, 3]], targets)
