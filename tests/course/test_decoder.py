"""The decoder, in the style of the assignment's public tests."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import course

IDS = np.array([[3, 2, 1], [2, 1, 0]])
MEMORY = np.random.default_rng(0).normal(size=(2, 5, 11)).astype("float32")
LOOK_AHEAD = np.tril(np.ones((1, 3, 3), "int32"))
KEYS = np.array([[[1, 1, 1, 1, 0]], [[1, 0, 1, 0, 0]]])
NAMES = [
    "decoder_layer1_block1_self_att",
    "decoder_layer1_block2_decenc_att",
    "decoder_layer2_block1_self_att",
    "decoder_layer2_block2_decenc_att",
]


@pytest.fixture
def decoder(randomize: Any) -> Any:
    decoder = course.Decoder(2, 7, 3, 13, 5, 8, dropout_rate=0.0)
    decoder.build((None, None), (None, None, 11))
    return randomize(decoder)


def test_outputs_and_weights(decoder: Any) -> None:
    outputs, weights = decoder(IDS, MEMORY, False, LOOK_AHEAD, KEYS)
    assert tuple(outputs.shape) == (2, 3, 7)
    assert type(weights) is dict
    assert list(weights) == NAMES
    assert [tuple(weights[name].shape) for name in NAMES] == [(2, 3, 3, 3), (2, 3, 3, 5)] * 2


def test_it_is_its_layers_in_order(decoder: Any) -> None:
    first, second = decoder.dec_layers
    x, block1, _ = first(decoder.embed(IDS), MEMORY, False, LOOK_AHEAD, KEYS)
    x, _, block2 = second(x, MEMORY, False, LOOK_AHEAD, KEYS)
    outputs, weights = decoder(IDS, MEMORY, False, LOOK_AHEAD, KEYS)
    np.testing.assert_array_equal(array(outputs), array(x))
    np.testing.assert_array_equal(array(weights[NAMES[0]]), array(block1))
    np.testing.assert_array_equal(array(weights[NAMES[3]]), array(block2))


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
def test_call_styles_and_masks(decoder: Any, dtype: str) -> None:
    look_ahead, keys = LOOK_AHEAD.astype(dtype), KEYS.astype(dtype)
    expected = array(
        decoder(x=IDS, enc_output=MEMORY, training=False, look_ahead_mask=LOOK_AHEAD, padding_mask=KEYS)[0]
    )
    calls = (
        decoder(IDS, MEMORY, False, look_ahead, keys),
        decoder(IDS, MEMORY, False, look_ahead, padding_mask=keys[:, 0]),
        decoder(IDS, MEMORY, padding_mask=keys[:, None], look_ahead_mask=look_ahead[0]),
    )
    for outputs, _ in calls:
        np.testing.assert_array_equal(array(outputs), expected)
    for masks in ((None, KEYS), (LOOK_AHEAD, None)):
        assert np.abs(array(decoder(IDS, MEMORY, False, *masks)[0]) - expected).max() > 0.01


def test_the_future_changes_nothing(decoder: Any) -> None:
    changed = np.array([[3, 2, 4], [2, 1, 4]])
    before, after = (array(decoder(ids, MEMORY, False, LOOK_AHEAD)[0]) for ids in (IDS, changed))
    np.testing.assert_allclose(after[:, :-1], before[:, :-1], atol=1e-5)
    assert np.abs(after[:, -1] - before[:, -1]).max() > 0.01


def test_training_by_position_turns_dropout_on() -> None:
    decoder = course.Decoder(1, 7, 3, 13, 5, 8, dropout_rate=0.5)
    calm = array(decoder(IDS, MEMORY, False)[0])
    assert np.abs(array(decoder(IDS, MEMORY, True)[0]) - calm).max() > 0.1


def test_wrong_input(decoder: Any) -> None:
    with pytest.raises(ValueError, match=r"`attention_mask` must have .* Received: shape=\(1, 4, 4\)"):
        decoder(IDS, MEMORY, False, np.ones((1, 4, 4)))


def test_in_tf_function_with_unknown_sizes(decoder: Any, compiled: Any) -> None:
    tf = pytest.importorskip("tensorflow")
    specs = [tf.TensorSpec((None, None), "int64"), tf.TensorSpec((None, None, 11), "float32")]

    def call(x: Any, memory: Any) -> Any:
        return decoder(x, memory, False, course.create_look_ahead_mask(keras.ops.shape(x)[1]))

    outputs, weights = compiled(call, input_signature=specs)(IDS, MEMORY)
    assert list(weights) == NAMES
    np.testing.assert_allclose(array(outputs), array(call(IDS, MEMORY)[0]), atol=1e-5)


def test_saved_and_loaded(tmp_path: Path) -> None:
    x, memory = keras.Input((3,), dtype="int32"), keras.Input((None, 11))
    model = keras.Model([x, memory], course.Decoder(1, 7, 3, 13, 5, 8)(x, memory, None, LOOK_AHEAD))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected, weights = model([IDS, MEMORY])
    assert list(weights) == NAMES[:2]
    np.testing.assert_array_equal(array(loaded([IDS, MEMORY])[0]), array(expected))
