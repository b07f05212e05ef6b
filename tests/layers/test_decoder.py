from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import Decoder

TARGET, SOURCE = np.array([[1] * 5, [1, 1, 1, 0, 0]]), np.array([[1] * 3, [1, 1, 0]])


def made(num_layers: int = 2, **options: Any) -> Any:
    decoder = Decoder(num_layers, 2, 11, **options)
    decoder.build((None, None, 8), (None, None, 7))
    decoder.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(decoder.weights)])
    return decoder


@pytest.mark.parametrize("norm_first", [False, True])
def test_every_layer_attends_to_the_same_encoder_output(norm_first: bool) -> None:
    decoder, x, memory = made(3, norm_first=norm_first), draw(2, 5, 8), draw(2, 3, 7, seed=1)
    masks = {"padding_mask": TARGET, "encoder_padding_mask": SOURCE}
    expected = x
    for layer in decoder.layers:
        expected = layer(expected, memory, **masks)
    expected = decoder.final_normalization(expected)
    np.testing.assert_allclose(array(decoder(x, memory, **masks)), array(expected), atol=1e-6)


def test_scores_by_name() -> None:
    decoder, x, memory = made(), draw(2, 5, 8), draw(2, 3, 7, seed=1)
    scores = decoder.attention_scores(x, memory)
    assert {name: tuple(score.shape) for name, score in scores.items()} == {
        "layer_1/self_attention": (2, 2, 5, 5),
        "layer_1/cross_attention": (2, 2, 5, 3),
        "layer_2/self_attention": (2, 2, 5, 5),
        "layer_2/cross_attention": (2, 2, 5, 3),
    }


def test_scores_of_a_stack_without_cross_attention() -> None:
    decoder, x = Decoder(2, 2, 11, norm_first=True), draw(6, 5, 8)
    decoder(x)
    assert list(decoder.attention_scores(x)) == ["layer_1/self_attention", "layer_2/self_attention"]


@pytest.mark.parametrize("norm_first", [False, True])
def test_scores_of_the_second_layer_follow_the_first(norm_first: bool) -> None:
    decoder, x, memory = made(norm_first=norm_first), draw(2, 5, 8), draw(2, 3, 7, seed=1)
    masks = {"padding_mask": TARGET, "encoder_padding_mask": SOURCE}
    scores = decoder.attention_scores(x, memory, **masks)
    below = decoder.layers[0](x, memory, **masks)
    of_layer = decoder.layers[1].attention_scores(below, memory, **masks)
    for name, expected in of_layer.items():
        np.testing.assert_allclose(array(scores[f"layer_2/{name}"]), array(expected), atol=1e-6)


@pytest.mark.parametrize("norm_first", [False, True])
def test_scores_under_a_keras_mask(norm_first: bool) -> None:
    decoder, x = Decoder(3, 2, 11, norm_first=norm_first), draw(2, 5, 8)
    mask = np.array([[0, 0, 1, 1, 1], [1] * 5], bool)
    decoder(x)
    expected = decoder.attention_scores(x, padding_mask=mask)
    masked = keras.ops.convert_to_tensor(x)
    masked._keras_mask = keras.ops.convert_to_tensor(mask)
    for name, scores in decoder.attention_scores(masked).items():
        # Rows of padding differ, because Keras's masks also hide queries.
        np.testing.assert_allclose(array(scores)[0, :, 2:], array(expected[name])[0, :, 2:], atol=1e-6)
