import math

import numpy as np
import pytest
from keras import ops

from helpers import array
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.relative_position_bias import RelativePositionBias


def bucket(distance: int, *, bidirectional: bool) -> int:
    """T5's rule, one distance at a time: key position minus query position."""
    side = 16 if bidirectional else 32
    offset = side if bidirectional and distance > 0 else 0
    distance = abs(distance) if bidirectional else max(-distance, 0)
    near = side // 2
    if distance < near:
        return offset + distance
    far = math.log(distance / near) / math.log(128 / near)
    return offset + min(side - 1, near + int(far * (side - near)))


@pytest.mark.parametrize("bidirectional", [True, False])
def test_against_the_rule(bidirectional: bool) -> None:
    layer = RelativePositionBias(3, bidirectional=bidirectional)
    layer.build((None, None, 3, 7))
    layer.set_weights([np.arange(96).reshape(32, 3)])
    biases = array(layer.logits(ops.zeros((2, 5, 3, 7)), 311, start=147))
    assert biases.shape == (1, 3, 5, 311)
    expected = [
        [bucket(key - query, bidirectional=bidirectional) for key in range(311)] for query in range(147, 152)
    ]
    np.testing.assert_array_equal(biases[0, 2], 3 * np.array(expected) + 2)


def test_attention_adds_it_to_the_logits() -> None:
    attention = MultiHeadAttention(2, 4, positions="relative")
    x = np.random.default_rng(0).normal(size=(1, 5, 7)).astype("float32")
    _, before = attention(x, x, return_attention_scores=True)
    attention.position_bias.biases.assign(np.random.default_rng(1).normal(size=(32, 2)))
    output, after = attention(x, x, return_attention_scores=True)
    bias = array(attention.position_bias.logits(ops.zeros((1, 5, 2, 4)), 5))
    plain = MultiHeadAttention(2, 4)
    plain(x, x)
    plain.set_weights(attention.get_weights()[:-1])
    _, without = plain(x, x, return_attention_scores=True)
    logits = np.log(array(without)) + bias
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(array(after), expected, atol=1e-5)
    assert np.abs(array(after) - array(before)).max() > 0.01
    np.testing.assert_allclose(array(attention(x, x)), array(output), atol=1e-6)
