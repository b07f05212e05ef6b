import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import FeedForward


def randomized(layer: Any, *shape: int) -> Any:
    layer(draw(*shape))
    layer.set_weights([draw(*weight.shape, seed=number) for number, weight in enumerate(layer.weights)])
    return layer


def test_against_the_paper(close: Any) -> None:
    layer, x = randomized(FeedForward(11), 2, 5, 7), draw(2, 5, 7)
    inner, inner_bias, outer, outer_bias = layer.get_weights()
    expected = np.maximum(x @ inner + inner_bias, 0) @ outer + outer_bias
    close(array(layer(x)), expected, 1e-5)


def test_numbers_to_check_by_hand() -> None:
    layer = FeedForward(1)
    layer.build((None, None, 2))
    layer.set_weights(
        [np.array([[1.0], [2.0]]), np.array([-1.0]), np.array([[3.0, 4.0]]), np.array([5.0, 6.0])]
    )
    outputs = layer(np.array([[[1.0, 1.0], [0.0, 0.0]]], "float32"))  # inner 2 and, cut off, -1
    assert array(outputs).tolist() == [[[11.0, 14.0], [5.0, 6.0]]]


@pytest.mark.parametrize("activation", ["gelu", "swish", keras.activations.tanh])
def test_activation(activation: Any) -> None:
    layer, x = randomized(FeedForward(3, activation=activation), 1, 2, 5), draw(1, 2, 5)
    inner, inner_bias, outer, outer_bias = layer.get_weights()
    activated = array(keras.activations.get(activation)(keras.ops.convert_to_tensor(x @ inner + inner_bias)))
    np.testing.assert_allclose(array(layer(x)), activated @ outer + outer_bias, atol=1e-5)


def test_positions_do_not_mix() -> None:
    layer, x = randomized(FeedForward(11), 2, 5, 7), draw(2, 5, 7)
    changed = x.copy()
    changed[:, 3] += 1
    difference = np.abs(array(layer(changed)) - array(layer(x))).max(axis=(0, 2))
    assert difference[3] > 1e-3
    np.testing.assert_array_equal(np.delete(difference, 3), 0)


def test_dropout_only_in_training() -> None:
    layer, x = randomized(FeedForward(31, dropout=0.5), 2, 5, 7), draw(2, 5, 7)
    np.testing.assert_array_equal(array(layer(x)), array(layer(x, training=False)))
    assert np.abs(array(layer(x, training=True)) - array(layer(x))).max() > 1e-3


def test_errors() -> None:
    with pytest.raises(ValueError, match=re.escape("above zero. Received: intermediate_dim=0.")):
        FeedForward(0)
    with pytest.raises(ValueError, match=re.escape("below 1. Received: dropout=1.5.")):
        FeedForward(3, dropout=1.5)
    with pytest.raises(ValueError, match=re.escape("Received: activation='softmux'.")):
        FeedForward(3, activation="softmux")


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_gated(activation: str) -> None:
    layer, x = randomized(FeedForward(3, activation=activation, gated=True), 1, 2, 5), draw(1, 2, 5)
    inner, inner_bias, gate, gate_bias, outer, outer_bias = layer.get_weights()
    activated = array(keras.activations.get(activation)(keras.ops.convert_to_tensor(x @ inner + inner_bias)))
    expected = (activated * (x @ gate + gate_bias)) @ outer + outer_bias
    np.testing.assert_allclose(array(layer(x)), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 0, 8), (0, 3, 8), (2, 8), (2, 3, 5, 8)])
def test_shapes_are_kept(shape: tuple[int, ...]) -> None:
    assert tuple(FeedForward(16)(np.zeros(shape, "float32")).shape) == shape
