from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.layers import AttentionCache, DecoderCache, DecoderLayerCache

array = keras.ops.convert_to_numpy
ROWS = [1, 1, 3, 2]


def attention_cache() -> AttentionCache:
    keys = np.random.default_rng(0).normal(size=(3, 4, 2, 5)).astype("float32")
    return AttentionCache(keras.ops.convert_to_tensor(keys), keras.ops.convert_to_tensor(2 * keys))


def made(encoder: bool) -> DecoderCache:
    source: Any = keras.ops.ones((2, 7, 2, 5)) if encoder else ()
    layers = tuple(DecoderLayerCache(attention_cache(), source, source) for _ in range(2))
    return DecoderCache(layers, keras.ops.ones((2, 7), "bool") if encoder else ())


@pytest.mark.parametrize("encoder", [False, True])
def test_reorder_moves_hypotheses_only(encoder: bool) -> None:
    cache, expected = made(encoder), array(attention_cache().keys)[:, ROWS]
    reordered = cache.reorder(np.array(ROWS))
    assert reordered.encoder_padding_mask is cache.encoder_padding_mask
    for layer, old in zip(reordered.layers, cache.layers, strict=True):
        np.testing.assert_array_equal(array(layer.self_attention.keys), expected)
        np.testing.assert_array_equal(array(layer.self_attention.values), 2 * expected)
        assert layer.encoder_keys is old.encoder_keys
        assert layer.encoder_values is old.encoder_values


@pytest.mark.parametrize("encoder", [False, True])
def test_a_loop_carries_it(encoder: bool) -> None:
    """None would not pass: TensorFlow makes a tensor of everything that a loop carries."""

    def advance(position: Any, cache: Any) -> Any:
        return position + 1, cache.reorder(np.array(ROWS))

    start = (keras.ops.convert_to_tensor(0), made(encoder))
    position, cache = keras.ops.while_loop(lambda position, _: position < 2, advance, start)
    assert int(position) == 2
    assert isinstance(cache, DecoderCache)
    twice = [ROWS[row] for row in ROWS]
    keys = array(cache.layers[1].self_attention.keys)
    np.testing.assert_array_equal(keys, array(attention_cache().keys)[:, twice])
    assert isinstance(cache.encoder_padding_mask, tuple) is not encoder
