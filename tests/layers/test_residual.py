import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention, Residual


def normalized(x: Any, layer: Any, epsilon: float) -> Any:
    gamma, beta = layer.get_weights()
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gamma + beta


def built(**options: Any) -> Any:
    layer = Residual(**options)
    layer.build((None, None, 7))
    layer.set_weights([draw(7, seed=1), draw(7, seed=2)])
    return layer


def mask_read_from(outputs: Any) -> Any:
    """The Keras mask of a tensor of one row, as the attention after it sees it."""
    _, scores = MultiHeadAttention(1, 2)(outputs, outputs, return_attention_scores=True)
    return (array(scores)[0, 0, 0] > 0).tolist()


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_new_layer_is_used_as_the_docstring_shows(norm_first: bool) -> None:
    residual, x = Residual(norm_first=norm_first), keras.Input((None, 7))
    model = keras.Model(x, residual(x, keras.layers.Dense(7)(residual.before(x))))
    assert array(model(draw(2, 5, 7))).shape == (2, 5, 7)
    eager = Residual(norm_first=norm_first)
    assert array(eager(draw(2, 5, 7), eager.before(draw(2, 5, 7)))).shape == (2, 5, 7)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3])
def test_post_norm(epsilon: float) -> None:
    layer, x, y = built(layer_norm_epsilon=epsilon), draw(2, 5, 7), draw(2, 5, 7, seed=3)
    assert layer.before(x) is x
    expected = normalized(x + y, layer, epsilon)
    np.testing.assert_allclose(array(layer(x, y)), expected, atol=1e-5)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3])
def test_pre_norm(epsilon: float) -> None:
    layer = built(norm_first=True, layer_norm_epsilon=epsilon)
    x, y = draw(2, 5, 7), draw(2, 5, 7, seed=3)
    expected = normalized(x, layer, epsilon)
    np.testing.assert_allclose(array(layer.before(x)), expected, atol=1e-5)
    np.testing.assert_allclose(array(layer(x, y)), x + y, atol=1e-6)


def test_dropout_is_on_the_sublayer_only() -> None:
    layer, x = built(norm_first=True, dropout=0.5), draw(2, 5, 7)
    np.testing.assert_array_equal(array(layer(x, np.zeros_like(x), training=True)), x)
    added = array(layer(np.zeros_like(x), np.ones_like(x), training=True))
    assert set(np.unique(added)) == {0.0, 2.0}
    np.testing.assert_array_equal(array(layer(np.zeros_like(x), x)), x)


def test_the_mask_goes_on() -> None:
    embedded = keras.layers.Embedding(5, 7, mask_zero=True)(np.array([[1, 0]]))
    outputs = built()(embedded, embedded)
    assert mask_read_from(outputs) == [True, False]


def test_errors() -> None:
    with pytest.raises(ValueError, match=re.escape("below 1. Received: dropout=-0.2.")):
        Residual(dropout=-0.2)
    with pytest.raises(ValueError, match=re.escape("'rms'. Received: normalization='none'.")):
        Residual(normalization="none")


@pytest.mark.parametrize("shape", [(2, 5, 1), (2, 1, 7), (1, 5, 7), (5, 7)])
def test_an_output_that_would_only_be_broadcast_is_refused(shape: tuple[int, ...]) -> None:
    received = f"inputs of shape (2, 5, 7), sublayer_output of shape {shape}."
    with pytest.raises(ValueError, match=re.escape(f"must have one shape. Received: {received}")):
        built()(draw(2, 5, 7), draw(*shape))


@pytest.mark.parametrize("norm_first", [True, False])
def test_inputs_of_another_width_are_refused(norm_first: bool) -> None:
    message = re.escape("the layer's weights, 7. Received: shape=(2, 5, 1).")
    with pytest.raises(ValueError, match=message):
        built(norm_first=norm_first).before(draw(2, 5, 1))
    with pytest.raises(ValueError, match=message):
        built(norm_first=norm_first)(draw(2, 5, 1), draw(2, 5, 1), training=True)


def test_rms() -> None:
    layer, x, y = Residual(normalization="rms"), draw(2, 5, 7), draw(2, 5, 7, seed=3)
    total = x + y
    expected = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(array(layer(x, y)), expected, atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
def test_two_in_a_functional_model_are_saved_and_read_back(norm_first: bool, tmp_path: Path) -> None:
    inputs = x = keras.Input((None, 8))
    for _ in range(2):
        residual = Residual(norm_first=norm_first)
        x = residual(x, keras.layers.Dense(8)(residual.before(x)))
    model, values = keras.Model(inputs, x), draw(2, 5, 8)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(restored(values)), array(model(values)))


@pytest.mark.parametrize("normalization", ["layer", "rms"])
def test_integers_are_numbers(normalization: str) -> None:
    layer, x = Residual(norm_first=True, normalization=normalization), np.arange(24).reshape(1, 3, 8)
    np.testing.assert_allclose(array(layer.before(x)), array(layer.before(x.astype("float32"))), atol=1e-6)
    np.testing.assert_allclose(array(layer(x, x)), 2.0 * x)
