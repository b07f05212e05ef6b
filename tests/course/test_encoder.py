"""The encoder, in the style of the assignment's public tests."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import course

IDS = np.array([[2, 1, 3, 4, 0], [1, 2, 0, 0, 0]])
MASK = (IDS != 0).astype("float32")


@pytest.fixture
def encoder(randomize: Any) -> Any:
    encoder = course.Encoder(2, 7, 3, 11, 5, 8, dropout_rate=0.0)
    encoder.build((None, None))
    return randomize(encoder)


def test_it_is_its_layers_in_order(encoder: Any) -> None:
    first, second = encoder.enc_layers
    expected = second(first(encoder.embed(IDS), False, MASK), False, MASK)
    outputs = encoder(IDS, False, MASK[:, None])
    assert tuple(outputs.shape) == (2, 5, 7)
    # A mask (b, t) is a Keras mask for the second layer, whose rows of padding gather what they do in Keras.
    is_token = np.broadcast_to(MASK, IDS.shape) != 0
    np.testing.assert_allclose(array(outputs)[is_token], array(expected)[is_token], atol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
@pytest.mark.parametrize("mask", [MASK, MASK[:, None], MASK[:, None, None]])
def test_call_styles_and_masks(encoder: Any, mask: Any, dtype: str) -> None:
    mask = mask.astype(dtype)
    expected = array(encoder(x=IDS, training=False, mask=MASK))
    np.testing.assert_array_equal(array(encoder(IDS, False, mask)), expected)
    np.testing.assert_array_equal(array(encoder(IDS, mask=keras.ops.convert_to_tensor(mask))), expected)
    assert np.abs(array(encoder(IDS, False, None)) - expected).max() > 0.01


def test_padding_changes_nothing(encoder: Any) -> None:
    padded = np.pad(IDS, [(0, 0), (0, 3)])
    before = array(encoder(IDS, False, course.create_padding_mask(IDS)))
    after = array(encoder(padded, False, course.create_padding_mask(padded)))
    np.testing.assert_allclose(after[:, :5], before, atol=1e-5)


def test_it_hands_no_mask_on_unasked(encoder: Any) -> None:
    decoder = course.Decoder(1, 7, 2, 11, 5, 8)
    _, weights = decoder(IDS, encoder(IDS, False, MASK), False)
    assert np.all(array(weights["decoder_layer1_block2_decenc_att"]) > 0)


def test_training_by_position_turns_dropout_on() -> None:
    encoder = course.Encoder(1, 7, 3, 11, 5, 8, dropout_rate=0.5)
    calm = array(encoder(IDS, False))
    np.testing.assert_array_equal(array(encoder(IDS)), calm)
    assert np.abs(array(encoder(IDS, True, MASK)) - calm).max() > 0.1


def test_wrong_input(encoder: Any) -> None:
    with pytest.raises(ValueError, match=r"`attention_mask` must have .* Received: shape=\(2, 1, 4\)"):
        encoder(IDS, False, MASK[:, :4])


def test_in_tf_function_with_unknown_sizes(encoder: Any, compiled: Any) -> None:
    tf = pytest.importorskip("tensorflow")
    specs = [tf.TensorSpec((None, None), "int64"), tf.TensorSpec((None, None), "float32")]
    outputs = compiled(lambda x, mask: encoder(x, False, mask), input_signature=specs)(IDS, MASK)
    np.testing.assert_allclose(array(outputs), array(encoder(IDS, False, MASK)), atol=1e-5)


def test_saved_and_loaded(tmp_path: Path) -> None:
    x = keras.Input((None,), dtype="int32")
    model = keras.Model(x, course.Encoder(1, 7, 3, 11, 5, 8)(x, None, course.create_padding_mask(x)))
    assert tuple(model.output.shape) == (None, None, 7)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(IDS)), array(model(IDS)))
