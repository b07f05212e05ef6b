from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.layers import DecoderLayer

array = keras.ops.convert_to_numpy
TARGET, SOURCE = np.array([[1] * 5, [1, 1, 1, 0, 0]]), np.array([[1] * 3, [1, 1, 0]])


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def made(**options: Any) -> Any:
    """Its encoder is narrower than it is itself."""
    layer = DecoderLayer(2, 11, **options)
    layer.build((None, None, 8), (None, None, 7))
    layer.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(layer.weights)])
    return layer


@pytest.fixture
def x() -> Any:
    return draw(2, 5, 8)


@pytest.fixture
def memory() -> Any:
    return draw(2, 3, 7, seed=1)


@pytest.mark.parametrize("norm_first", [False, True])
def test_composed_of_its_parts(norm_first: bool, x: Any, memory: Any) -> None:
    layer = made(norm_first=norm_first)
    attend, cross, feed = layer.self_attention, layer.cross_attention, layer.feed_forward
    first, second, third = (
        getattr(layer, f"{name}_residual").norm
        for name in ("self_attention", "cross_attention", "feed_forward")
    )
    causal = {"padding_mask": TARGET, "use_causal_mask": True}
    if norm_first:
        y = keras.ops.add(x, attend(first(x), first(x), **causal))
        y = y + cross(second(y), memory, padding_mask=SOURCE)
        expected = y + feed(third(y))
    else:
        y = first(keras.ops.add(x, attend(x, x, **causal)))
        y = second(y + cross(y, memory, padding_mask=SOURCE))
        expected = third(y + feed(y))
    output = layer(x, memory, padding_mask=TARGET, encoder_padding_mask=SOURCE)
    np.testing.assert_allclose(array(output), array(expected), atol=1e-5)


def test_scores(x: Any, memory: Any) -> None:
    layer, masks = made(), {"padding_mask": TARGET, "encoder_padding_mask": SOURCE}
    output, scores = layer(x, memory, **masks, return_attention_scores=True)
    np.testing.assert_allclose(array(output), array(layer(x, memory, **masks)), atol=1e-5)
    assert {name: tuple(score.shape) for name, score in scores.items()} == {
        "self_attention": (2, 2, 5, 5),
        "cross_attention": (2, 2, 5, 3),
    }
    seen = np.tril(np.ones((5, 5), bool)) & (TARGET[:, None, None] > 0)
    np.testing.assert_array_equal(array(scores["self_attention"]) > 0, np.broadcast_to(seen, (2, 2, 5, 5)))
    np.testing.assert_array_equal(array(scores["cross_attention"])[1, :, :, 2], 0)


def test_attention_mask_comes_on_top_of_the_causal_one(x: Any, memory: Any) -> None:
    mask = np.ones((5, 5), bool)
    mask[4, 1] = False
    _, scores = made()(x, memory, attention_mask=mask, return_attention_scores=True)
    seen = array(scores["self_attention"])[0, 0] > 0
    np.testing.assert_array_equal(seen, np.tril(mask))


def test_masks_of_embeddings_are_read() -> None:
    target = keras.layers.Embedding(5, 8, mask_zero=True)(np.array([[1, 0, 2]]))
    source = keras.layers.Embedding(5, 7, mask_zero=True)(np.array([[1, 2, 0]]))
    _, scores = made()(target, source, return_attention_scores=True)
    assert (array(scores["self_attention"])[0, 0, 2] > 0).tolist() == [True, False, True]
    assert (array(scores["cross_attention"])[0, 0, 2] > 0).tolist() == [True, True, False]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_steps_equal_the_whole_pass(norm_first: bool, beam_size: int, memory: Any) -> None:
    layer, x = made(norm_first=norm_first, dropout=0.3), draw(2 * beam_size, 5, 8)
    repeated, mask = np.repeat(memory, beam_size, axis=0), np.repeat(SOURCE, beam_size, axis=0)
    full = array(layer(x, repeated, encoder_padding_mask=mask))
    cache = layer.create_cache(memory, max_length=6, beam_size=beam_size)
    for position in range(5):
        output, cache = layer.step(x[:, position : position + 1], cache, position, SOURCE)
        np.testing.assert_allclose(array(output)[:, 0], full[:, position], atol=1e-5)


def test_reorder_moves_hypotheses_only(memory: Any) -> None:
    layer, x = made(), draw(4, 1, 8)
    _, cache = layer.step(x, layer.create_cache(memory, 3, beam_size=2), 0)
    reordered = cache.reorder(np.array([1, 1, 3, 2]))
    keys = array(cache.self_attention.keys)
    np.testing.assert_array_equal(array(reordered.self_attention.keys), keys[:, [1, 1, 3, 2]])
    assert reordered.encoder_keys is cache.encoder_keys
    assert reordered.encoder_values is cache.encoder_values


def test_dropout_is_on_in_training_only(x: Any, memory: Any) -> None:
    layer, plain = made(dropout=0.5), made()
    np.testing.assert_array_equal(array(layer(x, memory)), array(plain(x, memory)))
    assert np.abs(array(layer(x, memory, training=True)) - array(plain(x, memory))).max() > 1e-3
