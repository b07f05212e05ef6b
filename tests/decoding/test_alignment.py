"""Attention of given targets."""

import keras
import numpy as np
import pytest

from keras_transformer.decoding.scoring import align_targets

TARGETS = np.array([[2, 4, 5, 3, 0], [2, 6, 3, 0, 0], [2, 3, 0, 0, 0], [2, 7, 4, 5, 3], [2, 4, 4, 3, 0]])


def align(
    transformer: keras.Model, source_ids: np.ndarray, targets: np.ndarray, **options: int
) -> np.ndarray:
    return keras.ops.convert_to_numpy(align_targets(transformer, source_ids, targets, **options))


def test_it_is_the_mean_over_the_heads_of_a_layer(transformer: keras.Model, source_ids: np.ndarray) -> None:
    targets = TARGETS[3:4]  # no padding
    inputs = {"encoder_token_ids": source_ids[:1], "decoder_token_ids": targets[:, :-1]}
    scores = transformer.attention_scores(inputs)
    for layer, number in ((0, 1), (-2, 1), (1, 2), (-1, 2)):
        heads = keras.ops.convert_to_numpy(scores[f"decoder/layer_{number}/cross_attention"])
        actual = align(transformer, source_ids[:1], targets, layer=layer)
        np.testing.assert_allclose(actual, heads.mean(1), atol=1e-6)
    last = align(transformer, source_ids[:1], targets)
    np.testing.assert_array_equal(last, align(transformer, source_ids[:1], targets, layer=1))


def test_rows_sum_to_one_and_padding_is_zero(transformer: keras.Model, source_ids: np.ndarray) -> None:
    attention = align(transformer, source_ids, TARGETS)
    assert attention.shape == (5, 4, 6)
    is_token = TARGETS[:, 1:] != 0
    np.testing.assert_allclose(attention.sum(-1), is_token, atol=1e-6)
    assert not attention[~is_token].any()
    assert not attention.transpose(0, 2, 1)[source_ids == 0].any()


def test_a_row_does_not_depend_on_what_follows(transformer: keras.Model, source_ids: np.ndarray) -> None:
    changed = TARGETS.copy()
    changed[:, 3] = 6
    actual, expected = align(transformer, source_ids, changed), align(transformer, source_ids, TARGETS)
    np.testing.assert_allclose(actual[:, :1], expected[:, :1], atol=1e-6)


@pytest.mark.parametrize("layer", [2, -3])
def test_a_layer_that_is_not_there_is_refused(
    transformer: keras.Model, source_ids: np.ndarray, layer: int
) -> None:
    with pytest.raises(ValueError, match=rf"one of the 2 layers of the decoder\. Received: layer={layer}\."):
        align(transformer, source_ids, TARGETS, layer=layer)
