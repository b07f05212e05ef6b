"""Several texts in each row of one length."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.data import pack_texts


@pytest.mark.parametrize("length", [1, 7, 64, 2000])
def test_the_rows_hold_every_text_once_and_in_order(length: int) -> None:
    rng = np.random.default_rng(0)
    texts = [rng.integers(4, 50, size).tolist() for size in rng.integers(0, 20, 50)]
    rows = pack_texts(tf.ragged.constant(texts, dtype=tf.int32), length)
    inputs, labels = (np.stack(side) for side in zip(*rows.as_numpy_iterator(), strict=True))
    assert inputs.shape == labels.shape == (len(rows), length)
    wanted = [[2, *text] for text in texts], [[*text, 3] for text in texts]
    for side, whole in zip((inputs.ravel(), labels.ravel()), wanted, strict=True):
        flat = [token for text in whole for token in text]
        assert side[: len(flat)].tolist() == flat
        assert side[len(flat) :].tolist() == [0] * (len(side) - len(flat))
        assert len(side) - len(flat) < length


@pytest.mark.slow
def test_a_model_takes_the_rows() -> None:
    keras.utils.set_random_seed(0)
    model = kt.CausalLM(50, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
    model.compile("adam", kt.training.MaskedCrossentropy(), jit_compile=False)
    texts = tf.ragged.constant([[4, 5, 6], [7], [8, 9]] * 20, dtype=tf.int32)
    losses = model.fit(pack_texts(texts, 16).batch(4), epochs=2, verbose=0, shuffle=False).history["loss"]
    assert losses[1] < losses[0]


def test_a_row_needs_a_token() -> None:
    texts = tf.ragged.constant([[4]], dtype=tf.int32)
    with pytest.raises(ValueError, match=r"`length` must be above zero\. Received: length=0\."):
        pack_texts(texts, 0)
