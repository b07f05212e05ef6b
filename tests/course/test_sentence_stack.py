"""From ids to marked vectors, as encoder and decoder begin."""

from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import course

IDS = np.array([[4, 2, 0], [1, 1, 3]])
BOTH = pytest.mark.parametrize("cls", [course.Encoder, course.Decoder])


@BOTH
def test_embedding_times_root_of_the_width_plus_positions(cls: Any) -> None:
    stack = cls(1, 7, 2, 11, 5, 13)
    stack.embedding.build((None, None))
    table = array(stack.embedding.embeddings)
    assert table.shape == (5, 7)
    expected = table[IDS] * np.sqrt(7) + array(course.positional_encoding(13, 7))[:, :3]
    np.testing.assert_allclose(array(stack.embed(IDS)), expected, atol=1e-6)


@BOTH
def test_dropout_falls_on_the_embedded_sentence(cls: Any) -> None:
    vectors = array(cls(1, 7, 2, 11, 5, 13, dropout_rate=0.5).embed(IDS, training=True))
    assert 5 < np.sum(vectors == 0) < 37


@BOTH
def test_positions_are_exact_in_half_precision(cls: Any) -> None:
    stack = cls(1, 7, 2, 11, 5, 300, dtype="mixed_bfloat16")
    vectors = stack.embed(np.arange(290)[None] % 5)
    assert keras.backend.standardize_dtype(vectors.dtype) == "bfloat16"
    full = cls(1, 7, 2, 11, 5, 300)
    full.embed(IDS)
    full.embedding.set_weights(stack.embedding.get_weights())
    difference = array(keras.ops.cast(vectors, "float32")) - array(full.embed(np.arange(290)[None] % 5))
    assert np.abs(difference).max() < 0.05


@BOTH
@pytest.mark.parametrize("name", ["num_layers", "vocab_size"])
def test_wrong_sizes(cls: Any, name: str) -> None:
    sizes = {"num_layers": 1, "vocab_size": 5, "maximum_position_encoding": 3, name: 0}
    vocabulary = "input_vocab_size" if cls is course.Encoder else "target_vocab_size"
    shown = "vocabulary_size" if name == "vocab_size" else name
    sizes[vocabulary] = sizes.pop("vocab_size")
    with pytest.raises(ValueError, match=f"{shown}=0"):
        cls(embedding_dim=7, num_heads=2, fully_connected_dim=11, **sizes)


@BOTH
def test_wrong_rate(cls: Any) -> None:
    with pytest.raises(ValueError, match=r"-0\.1"):
        cls(1, 7, 2, 11, 5, 3, -0.1)


@BOTH
def test_config_round_trip(cls: Any) -> None:
    stack = cls(2, 7, 3, 11, 5, 13, 0.2, 1e-5, name="mine")
    copied = cls.from_config(stack.get_config())
    assert copied.get_config() == stack.get_config()
    layers = copied.enc_layers if cls is course.Encoder else copied.dec_layers
    assert [(layer.dropout_ffn.rate, layer.layernorm1.epsilon) for layer in layers] == [(0.2, 1e-5)] * 2
