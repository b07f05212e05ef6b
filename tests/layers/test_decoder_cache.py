from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.layers import AttentionCache, DecoderCache, DecoderLayerCache

ROWS = [1, 1, 3, 2]


def made(encoder: bool = True, tracked: bool = False) -> DecoderCache:
    """Two sources of two hypotheses each, three positions of which two are written."""
    keys = np.random.default_rng(0).normal(size=(2, 2, 6, 5)).astype("float32")
    own = AttentionCache(keras.ops.convert_to_tensor(keys), keras.ops.convert_to_tensor(2 * keys))
    source: Any = keras.ops.reshape(keras.ops.arange(2 * 2 * 7 * 5, dtype="float32"), (2, 2, 7, 5))
    layers = tuple(DecoderLayerCache(own, *((source, source) if encoder else ((), ()))) for _ in range(2))
    ancestors = keras.ops.convert_to_tensor([[[0, 0, -1], [0, 1, -1]], [[0, 0, -1], [1, 1, -1]]], "int32")
    sums = keras.ops.reshape(keras.ops.arange(28, dtype="float32"), (2, 2, 7)) if tracked else ()
    return DecoderCache(layers, keras.ops.ones((2, 7), "bool") if encoder else (), ancestors, sums)


@pytest.mark.parametrize("encoder", [False, True])
def test_reorder_copies_no_keys(encoder: bool) -> None:
    cache = made(encoder)
    reordered = cache.reorder(np.array(ROWS))
    assert reordered.layers is cache.layers
    assert reordered.encoder_padding_mask is cache.encoder_padding_mask
    expected = [[[0, 1, -1], [0, 1, -1]], [[1, 1, -1], [0, 0, -1]]]
    np.testing.assert_array_equal(array(reordered.ancestors), expected)


def test_reorder_moves_the_attention_sums() -> None:
    cache = made(tracked=True)
    sums = array(cache.reorder(np.array(ROWS)).attention_sums)
    np.testing.assert_array_equal(sums.reshape(4, 7), array(cache.attention_sums).reshape(4, 7)[ROWS])


def test_hypotheses_see_what_their_ancestors_wrote() -> None:
    visible = array(made().visible())[:, 0]
    assert visible.shape == (2, 2, 6)
    # The second hypothesis of the first source: 0 wrote the first position, 1 the second.
    np.testing.assert_array_equal(visible[0, 1], [True, False, False, True, False, False])
    np.testing.assert_array_equal(visible[1, 1], [False, True, False, True, False, False])


def test_write_makes_a_position_visible_to_its_writer() -> None:
    written = made().write(2)
    np.testing.assert_array_equal(array(written.ancestors)[:, :, 2], [[0, 1], [0, 1]])
    np.testing.assert_array_equal(array(written.ancestors)[:, :, :2], array(made().ancestors)[:, :, :2])


@pytest.mark.parametrize("encoder", [False, True])
def test_select_takes_everything_of_a_source(encoder: bool) -> None:
    cache = made(encoder, tracked=encoder)
    selected = cache.select(np.array([1]))
    np.testing.assert_array_equal(array(selected.ancestors), array(cache.ancestors)[1:])
    for layer, old in zip(selected.layers, cache.layers, strict=True):
        np.testing.assert_array_equal(array(layer.self_attention.keys), array(old.self_attention.keys)[1:])
        if encoder:
            np.testing.assert_array_equal(array(layer.encoder_values), array(old.encoder_values)[1:])
    if encoder:
        assert tuple(selected.encoder_padding_mask.shape) == (1, 7)
        assert tuple(selected.attention_sums.shape) == (1, 2, 7)


def test_grow_adds_positions_that_nobody_wrote() -> None:
    grown = made().grow(4)
    assert tuple(grown.layers[1].self_attention.keys.shape) == (2, 2, 14, 5)
    assert (array(grown.ancestors)[:, :, 2:] == -1).all()
    assert grown.beam_size == 2


@pytest.mark.parametrize("encoder", [False, True])
def test_a_loop_carries_it(encoder: bool) -> None:
    """None would not pass: TensorFlow makes a tensor of everything that a loop carries."""

    def advance(position: Any, cache: Any) -> Any:
        return position + 1, cache.reorder(np.array(ROWS))

    start = (keras.ops.convert_to_tensor(0), made(encoder))
    position, cache = keras.ops.while_loop(lambda position, _: position < 2, advance, start)
    assert int(position) == 2
    assert isinstance(cache, DecoderCache)
    twice = array(made().ancestors).reshape(4, 3)[[ROWS[row] for row in ROWS]]
    np.testing.assert_array_equal(array(cache.ancestors).reshape(4, 3), twice)
    assert isinstance(cache.encoder_padding_mask, tuple) is not encoder
