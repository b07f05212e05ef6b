import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import DecoderLayer

TARGET, SOURCE = np.array([[1] * 5, [1, 1, 1, 0, 0]]), np.array([[1] * 3, [1, 1, 0]])


def made(**options: Any) -> Any:
    """Its encoder is narrower than it is itself."""
    layer = DecoderLayer(2, 11, **options)
    layer.build((None, None, 8), (None, None, 7))
    layer.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(layer.weights)])
    return layer


def alone(**options: Any) -> Any:
    """A layer that has no encoder to attend to."""
    layer = DecoderLayer(2, 11, **options)
    layer.build((None, None, 8))
    layer.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(layer.weights)])
    return layer


@pytest.fixture
def x() -> Any:
    return draw(2, 5, 8)


@pytest.fixture
def memory() -> Any:
    return draw(2, 3, 7, seed=1)


@pytest.mark.parametrize("norm_first", [False, True])
def test_composed_of_its_parts(norm_first: bool, x: Any, memory: Any) -> None:
    layer = made(norm_first=norm_first)
    attend, cross, feed = layer.self_attention, layer.cross_attention, layer.feed_forward
    first, second, third = (
        getattr(layer, f"{name}_residual").norm
        for name in ("self_attention", "cross_attention", "feed_forward")
    )
    causal = {"padding_mask": TARGET, "use_causal_mask": True}
    if norm_first:
        y = keras.ops.add(x, attend(first(x), first(x), **causal))
        y = y + cross(second(y), memory, padding_mask=SOURCE)
        expected = y + feed(third(y))
    else:
        y = first(keras.ops.add(x, attend(x, x, **causal)))
        y = second(y + cross(y, memory, padding_mask=SOURCE))
        expected = third(y + feed(y))
    output = layer(x, memory, padding_mask=TARGET, encoder_padding_mask=SOURCE)
    np.testing.assert_allclose(array(output), array(expected), atol=1e-5)


def test_scores(x: Any, memory: Any) -> None:
    layer, masks = made(), {"padding_mask": TARGET, "encoder_padding_mask": SOURCE}
    scores = layer.attention_scores(x, memory, **masks)
    assert {name: tuple(score.shape) for name, score in scores.items()} == {
        "self_attention": (2, 2, 5, 5),
        "cross_attention": (2, 2, 5, 3),
    }
    seen = np.tril(np.ones((5, 5), bool)) & (TARGET[:, None, None] > 0)
    np.testing.assert_array_equal(array(scores["self_attention"]) > 0, np.broadcast_to(seen, (2, 2, 5, 5)))
    np.testing.assert_array_equal(array(scores["cross_attention"])[1, :, :, 2], 0)


def test_attention_mask_comes_on_top_of_the_causal_one(x: Any, memory: Any) -> None:
    mask = np.ones((5, 5), bool)
    mask[4, 1] = False
    scores = made().attention_scores(x, memory, attention_mask=mask)
    seen = array(scores["self_attention"])[0, 0] > 0
    np.testing.assert_array_equal(seen, np.tril(mask))


def test_masks_of_embeddings_are_read() -> None:
    target = keras.layers.Embedding(5, 8, mask_zero=True)(np.array([[1, 0, 2]]))
    source = keras.layers.Embedding(5, 7, mask_zero=True)(np.array([[1, 2, 0]]))
    scores = made().attention_scores(target, source)
    assert (array(scores["self_attention"])[0, 0, 2] > 0).tolist() == [True, False, True]
    assert (array(scores["cross_attention"])[0, 0, 2] > 0).tolist() == [True, True, False]


def test_dropout_is_on_in_training_only(x: Any, memory: Any) -> None:
    layer, plain = made(dropout=0.5), made()
    np.testing.assert_array_equal(array(layer(x, memory)), array(plain(x, memory)))
    assert np.abs(array(layer(x, memory, training=True)) - array(plain(x, memory))).max() > 1e-3


@pytest.mark.parametrize("norm_first", [False, True])
def test_without_cross_attention(norm_first: bool, x: Any) -> None:
    layer = alone(norm_first=norm_first)
    first, second = layer.self_attention_residual.norm, layer.feed_forward_residual.norm
    causal = {"padding_mask": TARGET, "use_causal_mask": True}
    attend, feed = layer.self_attention, layer.feed_forward
    if norm_first:
        y = keras.ops.add(x, attend(first(x), first(x), **causal))
        expected = y + feed(second(y))
    else:
        y = first(keras.ops.add(x, attend(x, x, **causal)))
        expected = second(y + feed(y))
    output = layer(x, padding_mask=TARGET)
    np.testing.assert_allclose(array(output), array(expected), atol=1e-5)
    assert list(layer.attention_scores(x, padding_mask=TARGET)) == ["self_attention"]
    assert len(layer.weights) == len(made().weights) - 8 - 2  # four kernels and biases, a normalization


@pytest.mark.parametrize("cross", [False, True])
def test_saved_with_and_without_cross_attention(cross: bool, x: Any, memory: Any, tmp_path: Path) -> None:
    given = [x, memory] if cross else [x]
    inputs = [keras.Input((None, each.shape[-1])) for each in given]
    model = keras.Model(inputs, DecoderLayer(2, 11)(*inputs))
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(given)), array(model(given)))
    assert any("cross_attention" in weight.path for weight in loaded.weights) == cross


def test_the_other_way_than_it_was_built(x: Any, memory: Any) -> None:
    with pytest.raises(
        ValueError, match=re.escape("(b, s, any width), as when the layer was built. Received: ")
    ):
        made()(x)
    message = "`encoder_output` must be None, as when the layer was built. Received: "
    with pytest.raises(ValueError, match=re.escape(f"{message}encoder_output=a tensor of shape (2, 3, 7).")):
        alone()(x, memory)


def test_masks_of_the_cross_attention(x: Any, memory: Any) -> None:
    mask = np.zeros((x.shape[1], memory.shape[1]), bool)
    mask[:, 1] = True
    scores = made().attention_scores(x, memory, cross_attention_mask=mask)
    np.testing.assert_allclose(array(scores["cross_attention"])[..., 1], 1.0, rtol=1e-6)
    with pytest.raises(ValueError, match=r"None without cross-attention\. Received: .* of shape \(\d, \d\)"):
        DecoderLayer(2, 11)(x, cross_attention_mask=mask)


def test_a_memory_of_another_width_is_refused() -> None:
    layer, x, wider = made(), draw(2, 5, 8), keras.ops.convert_to_tensor(draw(2, 3, 9))
    message = (
        "The last axis of `encoder_output` must have the size of the layer's weights, 7. Received: shape=("
    )
    with pytest.raises(ValueError, match=re.escape(f"{message}2, 3, 9).")):
        layer(x, wider)
