from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import DecoderLayer, EncoderLayer


def made(**options: Any) -> Any:
    layer = EncoderLayer(2, 11, **options)
    layer.build((None, None, 8))
    layer.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(layer.weights)])
    return layer


@pytest.mark.parametrize("norm_first", [False, True])
def test_composed_of_its_parts(norm_first: bool) -> None:
    layer, x, mask = made(norm_first=norm_first), draw(2, 5, 8), np.array([[1] * 5, [1, 1, 1, 0, 0]])
    first, second = (
        residual.norm for residual in (layer.self_attention_residual, layer.feed_forward_residual)
    )
    if norm_first:
        y = keras.ops.add(x, layer.self_attention(first(x), first(x), padding_mask=mask))
        expected = y + layer.feed_forward(second(y))
    else:
        y = first(keras.ops.add(x, layer.self_attention(x, x, padding_mask=mask)))
        expected = second(y + layer.feed_forward(y))
    np.testing.assert_allclose(array(layer(x, padding_mask=mask)), array(expected), atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_scores(norm_first: bool) -> None:
    layer, x, mask = made(norm_first=norm_first), draw(2, 5, 8), np.array([[1] * 5, [1, 1, 1, 0, 0]])
    scores = layer.attention_scores(x, padding_mask=mask)
    assert set(scores) == {"self_attention"}
    assert tuple(scores["self_attention"].shape) == (2, 2, 5, 5)
    np.testing.assert_array_equal(array(scores["self_attention"])[1, :, :, 3:], 0)


def test_attention_mask_and_padding_mask_are_both_heard() -> None:
    layer, x = made(), draw(1, 3, 8)
    scores = layer.attention_scores(
        x,
        padding_mask=np.array([[1, 1, 0]]),
        attention_mask=np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1]]),
    )
    allowed = (array(scores["self_attention"])[0, 0] > 0).astype(int)
    assert allowed.tolist() == [[0, 1, 0], [1, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_the_mask_of_an_embedding_is_read_and_goes_on(norm_first: bool, policy: str) -> None:
    x = keras.layers.Embedding(5, 8, mask_zero=True)(np.array([[1, 2, 0]]))
    first, second = (EncoderLayer(2, 11, norm_first=norm_first, dtype=policy) for _ in range(2))
    second(x)
    scores = second.attention_scores(first(x))
    allowed = keras.ops.cast(scores["self_attention"], "float32")[0, 0, 0] > 0
    assert array(allowed).tolist() == [True, True, False]


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "intermediate_dropout"])
def test_each_dropout_is_on_in_training_only(option: str) -> None:
    layer, x = made(**{option: 0.5}), draw(2, 5, 8)
    plain = made()
    np.testing.assert_array_equal(array(layer(x)), array(plain(x)))
    assert np.abs(array(layer(x, training=True)) - array(plain(x))).max() > 1e-3


def test_output_shape() -> None:
    assert made().compute_output_shape((2, None, 8)) == (2, None, 8)


@pytest.mark.parametrize("positions", [None, "rotary", "relative", "relative_keys", "relative_sinusoidal"])
@pytest.mark.parametrize("normalization", ["layer", "rms"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_mask_of_an_embedding_is_read(norm_first: bool, normalization: str, positions: Any) -> None:
    embedding = keras.layers.Embedding(20, 8, mask_zero=True)
    layer = EncoderLayer(2, 16, norm_first=norm_first, normalization=normalization, positions=positions)
    padded = array(layer(embedding(np.array([[3, 4, 5, 0, 0]]))))
    plain = array(layer(embedding(np.array([[3, 4, 5]]))))
    np.testing.assert_allclose(padded[:, :3], plain, atol=1e-5)


@pytest.mark.parametrize("layer_class", [EncoderLayer, DecoderLayer])
def test_the_order_of_keras_hub_is_noticed(layer_class: Any) -> None:
    hub = pytest.importorskip("keras_hub").layers
    assert hub.TransformerEncoder(16, 2).num_heads == 2
    with pytest.raises(
        ValueError, match=r"in KerasHub the opposite\. Received: num_heads=16, intermediate_dim=2\."
    ):
        layer_class(16, 2)
