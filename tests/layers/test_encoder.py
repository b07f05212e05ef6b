from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import Encoder

PADDING = np.array([[1] * 5, [1, 1, 1, 0, 0]])


def made(num_layers: int = 2, **options: Any) -> Any:
    encoder = Encoder(num_layers, 2, 11, **options)
    encoder.build((None, None, 8))
    encoder.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(encoder.weights)])
    return encoder


@pytest.mark.parametrize("norm_first", [False, True])
def test_one_layer_after_the_other(norm_first: bool) -> None:
    encoder, x = made(3, norm_first=norm_first), draw(2, 5, 8)
    expected = x
    for layer in encoder.layers:
        expected = layer(expected, padding_mask=PADDING)
    expected = encoder.final_normalization(expected)
    np.testing.assert_allclose(array(encoder(x, padding_mask=PADDING)), array(expected), atol=1e-6)


def test_only_a_pre_norm_stack_ends_with_a_normalization() -> None:
    assert isinstance(made(norm_first=True).final_normalization, keras.layers.LayerNormalization)
    assert made(norm_first=False).final_normalization.weights == []


def test_scores_by_name() -> None:
    encoder, x = made(), draw(2, 5, 8)
    output, scores = encoder(x, padding_mask=PADDING), encoder.attention_scores(x, padding_mask=PADDING)
    np.testing.assert_allclose(array(output), array(encoder(x, padding_mask=PADDING)), atol=1e-5)
    assert list(scores) == ["layer_1/self_attention", "layer_2/self_attention"]
    for score in scores.values():
        np.testing.assert_array_equal(array(score)[1, :, :, 3:], 0)
        np.testing.assert_allclose(array(score).sum(-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_mask_of_an_embedding_reaches_every_layer(norm_first: bool) -> None:
    x = keras.layers.Embedding(5, 8, mask_zero=True)(np.array([[1, 2, 0]]))
    scores = made(norm_first=norm_first).attention_scores(x)
    assert all((array(score)[0, 0, 0] > 0).tolist() == [True, True, False] for score in scores.values())


def test_layers_have_weights_of_their_own() -> None:
    encoder = made(3)
    assert len({id(weight) for weight in encoder.weights}) == len(encoder.weights) == 3 * 16
