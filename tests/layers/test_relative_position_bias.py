import math
import re
from typing import Any

import numpy as np
import pytest

from helpers import array
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.relative_position_bias import RelativePositionBias


def bucket(distance: int, num_buckets: int, max_distance: int) -> int:
    """T5's rule, one distance at a time: key position minus query position."""
    side = num_buckets // 2
    offset = side if distance > 0 else 0
    distance = abs(distance)
    near = side // 2
    if distance < near:
        return offset + distance
    far = math.log(distance / near) / math.log(max_distance / near)
    return offset + min(side - 1, near + int(far * (side - near)))


def built(num_heads: int = 3, **options: Any) -> Any:
    layer = RelativePositionBias(num_heads, **options)
    layer.build((None, None, 7))
    layer.set_weights([np.arange(layer.num_buckets * num_heads).reshape(layer.num_buckets, num_heads)])
    return layer


@pytest.mark.parametrize("sizes", [{}, {"num_buckets": 8, "max_distance": 17}])
def test_against_the_rule(sizes: dict[str, int]) -> None:
    layer = built(**sizes)
    biases = array(layer.between(5, 211, start=97))
    assert biases.shape == (1, 3, 5, 211)
    expected = [
        [bucket(key - query, layer.num_buckets, layer.max_distance) for key in range(211)]
        for query in range(97, 102)
    ]
    np.testing.assert_array_equal(biases[0, 2], 3 * np.array(expected) + 2)


def test_numbers_to_check_by_hand() -> None:
    layer = built(1, num_buckets=4, max_distance=2)
    assert array(layer.between(3, 3))[0, 0].tolist() == [[0, 3, 3], [1, 0, 3], [1, 1, 0]]


def test_layer_reads_the_lengths() -> None:
    layer, x = built(), np.zeros((2, 5, 7), "float32")
    np.testing.assert_array_equal(array(layer(x)), array(layer.between(5, 5)))
    np.testing.assert_array_equal(array(layer(x, x[:, :3], start=2)), array(layer.between(5, 3, start=2)))


def test_attention_adds_it_to_the_logits() -> None:
    attention = MultiHeadAttention(2, 4, positions="relative")
    x = np.random.default_rng(0).normal(size=(1, 5, 7)).astype("float32")
    _, before = attention(x, x, return_attention_scores=True)
    attention.position_bias.biases.assign(np.random.default_rng(1).normal(size=(32, 2)))
    output, after = attention(x, x, return_attention_scores=True)
    bias = array(attention.position_bias.between(5, 5))
    plain = MultiHeadAttention(2, 4)
    plain(x, x)
    plain.set_weights(attention.get_weights()[:-1])
    _, without = plain(x, x, return_attention_scores=True)
    logits = np.log(array(without)) + bias
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(array(after), expected, atol=1e-5)
    assert np.abs(array(after) - array(before)).max() > 0.01
    np.testing.assert_allclose(array(attention(x, x)), array(output), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_buckets": 7}, "must be even, and at least 4. Received: num_buckets=7."),
        ({"num_buckets": 2}, "must be even, and at least 4. Received: num_buckets=2."),
        ({"max_distance": 8}, "above num_buckets / 4. Received: max_distance=8, num_buckets=32."),
        ({"max_distance": 0}, "above zero. Received: max_distance=0."),
    ],
)
def test_errors(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        RelativePositionBias(3, **options)
