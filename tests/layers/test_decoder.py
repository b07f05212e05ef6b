import re
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
    output, scores = decoder(x, memory, return_attention_scores=True)
    np.testing.assert_allclose(array(output), array(decoder(x, memory)), atol=1e-5)
    assert {name: tuple(score.shape) for name, score in scores.items()} == {
        "layer_1/self_attention": (2, 2, 5, 5),
        "layer_1/cross_attention": (2, 2, 5, 3),
        "layer_2/self_attention": (2, 2, 5, 5),
        "layer_2/cross_attention": (2, 2, 5, 3),
    }


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("beam_size", [1, 2])
def test_steps_equal_the_whole_pass(norm_first: bool, beam_size: int) -> None:
    decoder, memory = made(norm_first=norm_first), draw(2, 3, 7, seed=1)
    x = draw(2 * beam_size, 5, 8)
    repeated, mask = (np.repeat(part, beam_size, axis=0) for part in (memory, SOURCE))
    full = array(decoder(x, repeated, encoder_padding_mask=mask))
    cache = decoder.create_cache(memory, SOURCE, max_length=7, beam_size=beam_size)
    for position in range(5):
        output, cache = decoder.step(x[:, position : position + 1], cache, position)
        np.testing.assert_allclose(array(output)[:, 0], full[:, position], atol=1e-5)


def test_steps_of_reordered_hypotheses() -> None:
    decoder, memory = made(), draw(2, 3, 7, seed=1)
    x, rows = draw(4, 2, 8), [1, 1, 3, 2]  # two hypotheses of each source
    _, cache = decoder.step(x[:, :1], decoder.create_cache(memory, SOURCE, 2, beam_size=2), 0)
    output, _ = decoder.step(x[rows, 1:], cache.reorder(np.array(rows)), 1)
    repeated, mask = (np.repeat(part, 2, axis=0) for part in (memory, SOURCE))
    expected = array(decoder(x[rows], repeated, encoder_padding_mask=mask))[:, 1]
    np.testing.assert_allclose(array(output)[:, 0], expected, atol=1e-5)


def test_without_cross_attention() -> None:
    decoder, x = Decoder(2, 2, 11, norm_first=True), draw(6, 5, 8)
    output, scores = decoder(x, return_attention_scores=True)
    assert list(scores) == ["layer_1/self_attention", "layer_2/self_attention"]
    cache = decoder.create_cache(None, None, 5, beam_size=3, batch_size=2)
    for position in range(5):
        step, cache = decoder.step(x[:, position : position + 1], cache, position)
        np.testing.assert_allclose(array(step)[:, 0], array(output)[:, position], atol=1e-5)
    with pytest.raises(ValueError, match=re.escape("Received: batch_size=None, encoder_output=None.")):
        decoder.create_cache(None, None, 5)


def test_steps_without_a_mask() -> None:
    decoder, x, memory = made(), draw(2, 5, 8), draw(2, 3, 7, seed=1)
    cache = decoder.create_cache(memory, None, 5)
    output, _ = decoder.step(x[:, :1], cache, 0)
    np.testing.assert_allclose(array(output)[:, 0], array(decoder(x, memory))[:, 0], atol=1e-5)


def test_steps_read_the_mask_of_an_embedding() -> None:
    memory = keras.layers.Embedding(20, 7, mask_zero=True)(np.array([[3, 4, 5, 0, 0]]))
    decoder, x = Decoder(1, 2, 16), draw(1, 3, 8)
    whole, cache = array(decoder(x, memory)), decoder.create_cache(memory, None, 3)
    for position in range(3):
        output, cache = decoder.step(x[:, position : position + 1], cache, position)
        np.testing.assert_allclose(array(output)[:, 0], whole[:, position], atol=1e-5)
