"""The decoder layer: call styles, masks, and the numbers of NumPy."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import course

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(2, 3, 7)).astype("float32")
MEMORY = GENERATOR.normal(size=(2, 5, 11)).astype("float32")  # the encoder is wider
KEYS = np.array([[1, 1, 1, 1, 0], [1, 0, 1, 0, 0]])
LOOK_AHEAD = np.tril(np.ones((1, 3, 3)))


@pytest.fixture
def layer(randomize: Any) -> Any:
    layer = course.DecoderLayer(7, 2, 13, dropout_rate=0.0)
    layer.build((None, None, 7), (None, None, 11))
    return randomize(layer)


def same(results: Any, expected: Any) -> bool:
    return all(np.array_equal(array(x), array(y)) for x, y in zip(results, expected, strict=True))


def test_numbers(layer: Any, reference: Any) -> None:
    kernel1, bias1, kernel2, bias2 = layer.ffn.get_weights()
    attn1, weights1 = reference.attend(layer.mha1.weights, X, X, LOOK_AHEAD[:, None])
    q1 = reference.normalize(layer.layernorm1, attn1 + X)
    attn2, weights2 = reference.attend(layer.mha2.weights, q1, MEMORY, KEYS[:, None, None])
    out2 = reference.normalize(layer.layernorm2, attn2 + q1)
    ffn = np.maximum(out2 @ kernel1 + bias1, 0) @ kernel2 + bias2
    expected = (reference.normalize(layer.layernorm3, ffn + out2), weights1, weights2)
    results = layer(X, MEMORY, False, LOOK_AHEAD, KEYS[:, None])
    assert [tuple(result.shape) for result in results] == [(2, 3, 7), (2, 2, 3, 3), (2, 2, 3, 5)]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(array(result), wanted, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
@pytest.mark.parametrize(
    ("look_ahead", "padding"),
    [
        (LOOK_AHEAD, KEYS[:, None]),
        (LOOK_AHEAD[0], KEYS),
        (np.repeat(LOOK_AHEAD, 2, 0), KEYS[:, None, None]),
        (LOOK_AHEAD[None], np.repeat(KEYS[:, None], 3, 1)),
    ],
)
def test_call_styles_and_masks(layer: Any, look_ahead: Any, padding: Any, dtype: str) -> None:
    look_ahead, padding = look_ahead.astype(dtype), padding.astype(dtype)
    tensors = [keras.ops.convert_to_tensor(mask) for mask in (look_ahead, padding)]
    masks = {"padding_mask": KEYS[:, None], "look_ahead_mask": LOOK_AHEAD}
    expected = layer(x=X, enc_output=MEMORY, training=False, **masks)
    assert same(layer(X, MEMORY, False, look_ahead, padding), expected)
    assert same(layer(X, MEMORY, False, *tensors), expected)
    assert same(layer(X, MEMORY, False, look_ahead, padding_mask=padding), expected)


def test_each_mask_covers_its_own_block(layer: Any) -> None:
    _, free1, free2 = layer(X, MEMORY, False, None, None)
    assert np.all(array(free1) > 0)  # nothing hides the future unasked
    assert np.all(array(free2) > 0)
    _, hidden1, still_free2 = layer(X, MEMORY, False, LOOK_AHEAD)
    np.testing.assert_array_equal(array(hidden1) > 0, np.broadcast_to(LOOK_AHEAD[:, None] > 0, (2, 2, 3, 3)))
    assert np.all(array(still_free2) > 0)
    _, still_free1, hidden2 = layer(X, MEMORY, False, None, KEYS)
    np.testing.assert_array_equal(array(hidden2) > 0, np.broadcast_to(KEYS[:, None, None] > 0, (2, 2, 3, 5)))
    assert np.all(array(still_free1) > 0)


def test_the_future_changes_nothing(layer: Any) -> None:
    changed = X.copy()
    changed[:, -1] *= -1
    before, after = (array(layer(x, MEMORY, False, LOOK_AHEAD)[0]) for x in (X, changed))
    np.testing.assert_allclose(after[:, :-1], before[:, :-1], atol=1e-6)
    assert np.abs(after[:, -1] - before[:, -1]).max() > 0.01


def test_padding_of_the_source_changes_nothing(layer: Any) -> None:
    padded = np.concatenate([MEMORY, MEMORY[:, :2]], axis=1)
    before = layer(X, MEMORY, False, LOOK_AHEAD, KEYS)[0]
    after = layer(X, padded, False, LOOK_AHEAD, np.pad(KEYS, [(0, 0), (0, 2)]))[0]
    np.testing.assert_allclose(array(after), array(before), atol=1e-6)


@pytest.mark.filterwarnings("ignore:`.+_mask` hides all keys")
def test_nothing_to_attend_to_gives_zero_weights(layer: Any) -> None:
    outputs, _, weights = layer(X, MEMORY, False, LOOK_AHEAD, np.zeros((1, 5)))
    assert np.all(array(weights) == 0)
    assert np.all(np.isfinite(array(outputs)))


def test_the_keras_mask_of_the_target_is_handed_on(layer: Any) -> None:
    ids = np.array([[3, 2, 0], [1, 0, 0]])
    x = keras.layers.Embedding(5, 7, mask_zero=True)(ids)
    is_token = ids != 0
    # As in Keras, a query of padding has no scores.
    expected = np.broadcast_to((is_token[:, :, None] & is_token[:, None])[:, None], (2, 2, 3, 3))
    outputs, weights, _ = layer(x, MEMORY)
    np.testing.assert_array_equal(array(weights) > 0, expected)
    _, weights, _ = layer(outputs, MEMORY)
    np.testing.assert_array_equal(array(weights) > 0, expected)


def test_training_by_position_turns_dropout_on() -> None:
    layer = course.DecoderLayer(7, 2, 13, dropout_rate=0.5)
    calm, busy = array(layer(X, MEMORY, False)[0]), array(layer(X, MEMORY, True)[0])
    np.testing.assert_array_equal(array(layer(X, MEMORY)[0]), calm)
    assert np.abs(busy - calm).max() > 0.1


def test_wrong_width_and_masks(layer: Any) -> None:
    with pytest.raises(
        ValueError, match=r"axis of `x` must have the size .* 7\. Received: shape=\(2, 5, 11\)"
    ):
        course.DecoderLayer(7, 2, 13)(MEMORY, MEMORY)
    with pytest.raises(ValueError, match=r"size of the layer's weights, 7\. Received: shape=\(2, 3, 1\)"):
        layer(X[..., :1], MEMORY)
    with pytest.raises(ValueError, match=r"size of the layer's weights, 11\. Received: shape=\(2, 5, 1\)"):
        layer(X, MEMORY[..., :1])
    with pytest.raises(ValueError, match=r"`attention_mask` .* Received: shape=\(5, 5\)"):
        layer(X, MEMORY, False, np.ones((5, 5)))
    with pytest.raises(ValueError, match=r"`attention_mask` .* Received: shape=\(2, 1, 3\)"):
        layer(X, MEMORY, False, None, np.ones((2, 3)))


def test_in_tf_function(layer: Any, compiled: Any) -> None:
    results = compiled(lambda x, memory, mask: layer(x, memory, False, LOOK_AHEAD, mask))(X, MEMORY, KEYS)
    for result, expected in zip(results, layer(X, MEMORY, False, LOOK_AHEAD, KEYS), strict=True):
        np.testing.assert_allclose(array(result), array(expected), atol=1e-5)


def test_saved_and_loaded(tmp_path: Path) -> None:
    x, memory = keras.Input((3, 7)), keras.Input((None, 11))
    outputs = course.DecoderLayer(7, 2, 13)(x, memory, False, LOOK_AHEAD)
    assert [tuple(output.shape)[1:] for output in outputs] == [(3, 7), (2, 3, 3), (2, 3, None)]
    model = keras.Model([x, memory], outputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert same(loaded([X, MEMORY]), model([X, MEMORY]))
