"""The layer of TensorFlow Addons: its call styles, over `layers.MultiHeadAttention`."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.course import addons

QUERY, KEY, VALUE = draw(2, 3, 9), draw(2, 5, 11, seed=1), draw(2, 5, 13, seed=2)
MASK = np.array([[1, 1, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]])


@pytest.fixture
def layer(randomize: Any) -> Any:
    layer = addons.MultiHeadAttention(7, 2, 17, return_attn_coef=True)
    layer.build([(None, None, 9), (None, None, 11), (None, None, 13)])
    return randomize(layer)


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
@pytest.mark.parametrize("mask", [MASK, np.stack([MASK] * 2), np.tile(MASK, (2, 2, 1, 1))])
def test_it_is_our_layer(layer: Any, mask: Any, dtype: str) -> None:
    options = {"attention_mask": MASK, "return_attention_scores": True}
    expected = layer.attention(QUERY, VALUE, KEY, **options)
    by_keyword = layer([QUERY, KEY, VALUE], mask=mask.astype(dtype))
    by_position = layer([QUERY, KEY, VALUE], False, keras.ops.convert_to_tensor(mask.astype(dtype)))
    assert [tuple(result.shape) for result in by_keyword] == [(2, 3, 17), (2, 2, 3, 5)]
    for found in (by_keyword, by_position):
        np.testing.assert_array_equal(array(found[0]), array(expected[0]))
        np.testing.assert_array_equal(array(found[1]), array(expected[1]))


def test_without_a_key_the_value_is_the_key() -> None:
    layer = addons.MultiHeadAttention(7, 2)
    output = layer([QUERY, VALUE])
    assert tuple(output.shape) == QUERY.shape
    np.testing.assert_array_equal(array(output), array(layer([QUERY, VALUE, VALUE])))


def test_dropout_only_in_training() -> None:
    layer = addons.MultiHeadAttention(7, 2, dropout=0.5)
    calm = array(layer([QUERY, VALUE], False))
    np.testing.assert_array_equal(array(layer([QUERY, VALUE])), calm)
    assert np.abs(array(layer([QUERY, VALUE], True)) - calm).max() > 0.01


def test_keras_masks_are_read(layer: Any) -> None:
    ids = np.array([[3, 2, 1, 0, 0], [1, 0, 0, 0, 0]])
    embedding = keras.layers.Embedding(5, 11, mask_zero=True)
    _, coefficients = layer([QUERY, embedding(ids), VALUE])
    np.testing.assert_array_equal(
        array(coefficients) > 0, np.broadcast_to((ids != 0)[:, None, None], (2, 2, 3, 5))
    )


def test_wrong_calls(layer: Any) -> None:
    with pytest.raises(ValueError, match=r"or \[query, value\]. Received: 1"):
        layer([QUERY])
    with pytest.raises(ValueError, match=r"`attention_mask` must have .* Received: shape=\(2, 5\)"):
        layer([QUERY, KEY, VALUE], mask=np.ones((2, 5)))


def test_in_tf_function(layer: Any, compiled: Any) -> None:
    output, _ = compiled(lambda *inputs: layer(list(inputs), mask=MASK))(QUERY, KEY, VALUE)
    np.testing.assert_allclose(array(output), array(layer([QUERY, KEY, VALUE], mask=MASK)[0]), atol=1e-5)


def test_fit_config_and_saving(tmp_path: Path) -> None:
    query, value = keras.Input((3, 9)), keras.Input((5, 13))
    layer = addons.MultiHeadAttention(7, 2, 9, 0.1)
    assert addons.MultiHeadAttention.from_config(layer.get_config()).get_config() == layer.get_config()
    model = keras.Model([query, value], layer([query, value], mask=MASK))
    model.compile("sgd", "mse")
    [loss] = model.fit([QUERY, VALUE], QUERY, verbose=0).history["loss"]
    assert np.isfinite(loss)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded([QUERY, VALUE])), array(model([QUERY, VALUE])))


def test_a_mask_of_nested_lists_is_a_mask(layer: Any) -> None:
    inputs = [QUERY, KEY, VALUE]
    expected = array(layer(inputs, mask=MASK)[1])
    np.testing.assert_array_equal(array(layer(inputs, mask=MASK.tolist())[1]), expected)
