"""The encoder layer: call styles, masks, and the numbers of NumPy."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import course

X = np.random.default_rng(0).normal(size=(2, 5, 7)).astype("float32")
KEYS = np.array([[1, 1, 1, 1, 0], [1, 0, 1, 0, 0]])


@pytest.fixture
def layer(randomize: Any) -> Any:
    layer = course.EncoderLayer(7, 3, 11, dropout_rate=0.0)
    layer.build((None, None, 7))
    return randomize(layer)


def test_numbers(layer: Any, reference: Any) -> None:
    attend, normalize = reference.attend, reference.normalize
    kernel1, bias1, kernel2, bias2 = layer.ffn.get_weights()
    attended, _ = attend(layer.mha.weights, X, X, KEYS[:, None, None])
    out1 = normalize(layer.layernorm1, X + attended)
    ffn = np.maximum(out1 @ kernel1 + bias1, 0) @ kernel2 + bias2
    expected = normalize(layer.layernorm2, out1 + ffn)
    np.testing.assert_allclose(array(layer(X, False, KEYS[:, None])), expected, atol=1e-5)


def test_each_head_has_the_whole_width(layer: Any) -> None:
    assert tuple(layer.mha.query_dense.kernel.shape) == (7, 3, 7)


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
@pytest.mark.parametrize("mask", [KEYS, KEYS[:, None], KEYS[:, None, None]])
def test_call_styles_and_masks(layer: Any, mask: Any, dtype: str) -> None:
    mask = mask.astype(dtype)
    tensor = keras.ops.convert_to_tensor(mask)
    expected = array(layer(x=X, training=False, mask=KEYS[:, None]))
    for outputs in (layer(X, False, mask), layer(X, False, tensor), layer(X, training=False, mask=mask)):
        np.testing.assert_array_equal(array(outputs), expected)
    assert np.abs(array(layer(X, False)) - expected).max() > 0.01


def test_one_mask_for_all_rows(layer: Any) -> None:
    each, once = layer(X, False, np.stack([KEYS[1]] * 2)), layer(X, False, KEYS[1:])
    np.testing.assert_array_equal(array(each), array(once))


def test_a_look_ahead_mask_hides_the_future(layer: Any) -> None:
    mask, changed = course.create_look_ahead_mask(5), X.copy()
    changed[:, -1] *= -1
    before, after = array(layer(X, False, mask)), array(layer(changed, False, mask))
    np.testing.assert_allclose(after[:, :-1], before[:, :-1], atol=1e-6)
    assert np.abs(array(layer(X)) - array(layer(changed)))[:, :-1].max() > 0.01


def test_padding_changes_nothing(layer: Any) -> None:
    padded = np.concatenate([X, X[:, :3]], axis=1)
    mask = np.pad(KEYS, [(0, 0), (0, 3)])
    np.testing.assert_allclose(
        array(layer(padded, False, mask))[:, :5], array(layer(X, False, KEYS)), atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:`.+_mask` hides all keys")
def test_nothing_to_attend_to_gathers_zeros(layer: Any, reference: Any) -> None:
    normalize = reference.normalize
    kernel1, bias1, kernel2, bias2 = layer.ffn.get_weights()
    out1 = normalize(layer.layernorm1, X + array(layer.mha.output_dense.bias))
    expected = normalize(layer.layernorm2, out1 + np.maximum(out1 @ kernel1 + bias1, 0) @ kernel2 + bias2)
    np.testing.assert_allclose(array(layer(X, False, np.zeros((2, 1, 5)))), expected, atol=1e-5)


def test_the_keras_mask_is_read_and_handed_on(layer: Any) -> None:
    ids = np.array([[3, 2, 1, 1, 0], [2, 1, 0, 0, 0]])
    embedding = keras.layers.Embedding(5, 7, mask_zero=True)
    vectors = array(embedding(ids))
    expected = layer(layer(vectors, False, ids != 0), False, ids != 0)
    # Rows of padding gather what they do in Keras.
    outputs = array(layer(layer(embedding(ids))))
    np.testing.assert_allclose(outputs[ids != 0], array(expected)[ids != 0], atol=1e-6)


def test_dropout_only_in_training() -> None:
    layer = course.EncoderLayer(7, 3, 11, dropout_rate=0.5)
    calm = array(layer(X, False))
    np.testing.assert_array_equal(array(layer(X)), calm)
    np.testing.assert_array_equal(array(layer(X, training=False)), calm)
    for outputs in (layer(X, True), layer(X, training=True)):
        assert np.abs(array(outputs) - calm).max() > 0.1


def test_wrong_width_and_masks(layer: Any) -> None:
    with pytest.raises(
        ValueError, match=r"axis of `x` must have the size .* 7\. Received: shape=\(2, 5, 1\)"
    ):
        course.EncoderLayer(7, 3, 11)(X[..., :1])
    with pytest.raises(ValueError, match=r"size of the layer's weights, 7\. Received: shape=\(2, 5, 1\)"):
        layer(X[..., :1])  # built for 7 before
    with pytest.raises(ValueError, match=r"`attention_mask` must have .* Received: shape=\(5, 1, 5\)"):
        layer(X, False, np.ones((5, 5)))


def test_in_tf_function(layer: Any, compiled: Any) -> None:
    outputs = compiled(lambda x, mask: layer(x, False, mask))(X, KEYS)
    np.testing.assert_allclose(array(outputs), array(layer(X, False, KEYS)), atol=1e-5)


@pytest.mark.slow
def test_in_fit_and_after_saving(tmp_path: Path) -> None:
    x, mask = keras.Input((None, 7)), keras.Input((None,), dtype="int32")
    model = keras.Model([x, mask], course.EncoderLayer(7, 3, 11)(x, None, mask))
    model.compile("sgd", "mse")
    [loss] = model.fit([X, KEYS], X, verbose=0).history["loss"]
    assert np.isfinite(loss)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded([X, KEYS])), array(model([X, KEYS])))
    assert np.abs(array(model([X, np.ones_like(KEYS)])) - array(model([X, KEYS]))).max() > 0.01
