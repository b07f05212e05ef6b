from typing import Any

import keras
import pytest

from keras_transformer.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, MultiHeadAttention


def shapes(structure: Any) -> Any:
    return keras.tree.map_structure(lambda tensor: tuple(tensor.shape), structure)


@pytest.mark.parametrize("lengths", [(5, 3), (None, None)])
def test_symbolic_scores_of_attention(lengths: tuple[int | None, int | None]) -> None:
    t, s = lengths
    layer, query, value = MultiHeadAttention(2, 3), keras.Input((t, 7)), keras.Input((s, 11))
    output, scores = layer(query, value, return_attention_scores=True)
    assert shapes(output) == (None, t, 7)
    assert shapes(scores) == (None, 2, t, s)
    assert shapes(layer(query, value)) == (None, t, 7)


def test_symbolic_scores_of_the_encoder() -> None:
    inputs = keras.Input((5, 8))
    output, scores = EncoderLayer(2, 3)(inputs, return_attention_scores=True)
    assert shapes((output, scores)) == ((None, 5, 8), {"self_attention": (None, 2, 5, 5)})
    output, scores = Encoder(2, 2, 3)(inputs, return_attention_scores=True)
    assert shapes(scores) == {f"layer_{number}/self_attention": (None, 2, 5, 5) for number in (1, 2)}


@pytest.mark.parametrize("make", [lambda: DecoderLayer(2, 3), lambda: Decoder(1, 2, 3)])
def test_symbolic_scores_of_the_decoder(make: Any) -> None:
    output, scores = make()(keras.Input((5, 8)), keras.Input((3, 11)), return_attention_scores=True)
    assert shapes(output) == (None, 5, 8)
    assert sorted(shapes(scores).values()) == [(None, 2, 5, 3), (None, 2, 5, 5)]
