import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention


@pytest.fixture
def attention() -> Any:
    layer = MultiHeadAttention(2, 3)
    layer.build((None, None, 7), (None, None, 7))
    layer.set_weights([0.5 * draw(*w.shape, seed=number) for number, w in enumerate(layer.weights)])
    return layer


def test_inputs_without_a_batch(attention: Any) -> None:
    x, memory = draw(5, 7), draw(3, 7, seed=1)
    masks = {"padding_mask": np.array([1, 1, 0]), "attention_mask": np.tril(np.ones((5, 3)))}
    output, scores = attention(x, memory, **masks, return_attention_scores=True)
    batched = {"padding_mask": masks["padding_mask"][None], "attention_mask": masks["attention_mask"]}
    expected = attention(x[None], memory[None], **batched, return_attention_scores=True)
    assert (tuple(output.shape), tuple(scores.shape)) == ((5, 7), (2, 5, 3))
    np.testing.assert_allclose(array(output), array(expected[0])[0], atol=1e-6)
    np.testing.assert_allclose(array(scores), array(expected[1])[0], atol=1e-6)


def test_a_mask_for_each_head_without_a_batch(attention: Any) -> None:
    x, mask = draw(5, 7), draw(2, 5, 5) > 0
    expected = attention(x[None], x[None], attention_mask=mask[None])
    np.testing.assert_allclose(array(attention(x, x, attention_mask=mask)), array(expected)[0], atol=1e-6)


@pytest.fixture
def of_rows(attention: Any) -> Any:
    """Attend along axis 2 of inputs `(b, n, t, d)`, with the same weights."""
    layer = MultiHeadAttention(2, 3, attention_axes=2)
    layer.build((None, None, None, 7), (None, None, None, 7))
    layer.set_weights(attention.get_weights())
    return layer


@pytest.mark.filterwarnings("ignore:`.+_mask` hides all keys")
@pytest.mark.parametrize("mask_shape", [(5, 3), (2, 11, 5, 3), (1, 11, 5, 3), (2, 1, 2, 5, 3)])
def test_extra_leading_axes(attention: Any, of_rows: Any, mask_shape: tuple[int, ...]) -> None:
    x, memory = draw(2, 11, 5, 7), draw(2, 11, 3, 7, seed=1)
    padding, mask = draw(2, 11, 3, seed=2) > -1, draw(*mask_shape, seed=3) > 0
    output, scores = of_rows(
        x, memory, attention_mask=mask, padding_mask=padding, return_attention_scores=True
    )
    assert (tuple(output.shape), tuple(scores.shape)) == ((2, 11, 5, 7), (2, 11, 2, 5, 3))
    full = np.broadcast_to(mask, (2, 11, *mask_shape[2:])) if len(mask_shape) > 2 else mask
    for row in range(2):
        expected = attention(
            x[row],
            memory[row],
            attention_mask=full[row] if len(mask_shape) > 2 else full,
            padding_mask=padding[row],
        )
        np.testing.assert_allclose(array(output)[row], array(expected), atol=1e-5)


def test_unknown_sizes_in_a_functional_model(attention: Any) -> None:
    inputs = keras.Input((None, None, 7))
    model = keras.Model(inputs, attention(inputs, inputs, use_causal_mask=True))
    x = draw(2, 3, 5, 7)
    assert model.output.shape == (None, None, None, 7)
    expected = array(attention(x, x, use_causal_mask=True))
    np.testing.assert_allclose(array(model(x)), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("rank", "axes", "message"),
    [
        (3, (2,), "axes between 0 and 1 of inputs of rank 3. Received: attention_axes=(2,)."),
        (3, (-1,), "Received: attention_axes=(-1,)."),
        (3, (), "Received: attention_axes=()."),
        (4, 5, "Received: attention_axes=(5,)."),
    ],
)
def test_axes_that_are_not_there(rank: int, axes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MultiHeadAttention(2, 3, attention_axes=axes)(*[np.ones((2, 3, 5, 7)[4 - rank :])] * 2)


def test_masks_of_the_wrong_rank(attention: Any, of_rows: Any) -> None:
    x = draw(2, 3, 5, 7)
    with pytest.raises(ValueError, match=re.escape("their width, (2, 3, 5). Received: shape=(2, 5).")):
        attention(x, x, padding_mask=np.ones((2, 5)))
    for layer, ranks in ((of_rows, "2, 4, 5"), (attention, "2, 3, 4, 5, 6")):
        with pytest.raises(ValueError, match=f"a rank of {ranks} for inputs of rank 4. Received: shape="):
            layer(x, x, attention_mask=np.ones((3, 5, 5) if layer is of_rows else (2, 1, 1, 1, 3, 5, 5)))


def as_keras(layer: Any) -> Any:
    """Make Keras's layer with the weights of ours."""
    theirs = keras.layers.MultiHeadAttention(2, 3, attention_axes=layer.attention_axes)
    theirs.build((None, 3, 5, 7), (None, 2, 4, 7))
    theirs.set_weights(layer.get_weights())
    return theirs


@pytest.mark.parametrize("mask_shape", [None, (2, 3, 5, 2, 4), (2, 2, 3, 5, 2, 4), (2, 1, 3, 5, 2, 4)])
def test_images_are_attended_to_as_in_keras(attention: Any, mask_shape: tuple[int, ...] | None) -> None:
    x, memory, mask = draw(2, 3, 5, 7), draw(2, 2, 4, 7, seed=1), None
    if mask_shape is not None:
        mask = draw(*mask_shape, seed=2) > 0
        mask[..., 0] = True  # a query that may attend to nothing gets zeros here
    found = attention(x, memory, attention_mask=mask, return_attention_scores=True)
    expected = as_keras(attention)(x, memory, attention_mask=mask, return_attention_scores=True)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(array(ours), array(theirs), atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 5, 4, 2), (3, 15, 8), (2, 14, 8)])
def test_an_attention_mask_of_other_sizes_is_refused(attention: Any, shape: tuple[int, ...]) -> None:
    x, memory = draw(2, 3, 5, 7), draw(2, 2, 4, 7, seed=1)
    with pytest.raises(ValueError, match=re.escape(f"Received: shape={shape}.")):
        attention(x, memory, attention_mask=np.ones(shape))


@pytest.mark.parametrize("shape", [(3, 2, 5), (6, 1, 5), (1, 3, 5)])
def test_a_mask_with_other_leading_axes_is_refused(attention: Any, shape: tuple[int, ...]) -> None:
    x = draw(2, 3, 5, 7)
    with pytest.raises(ValueError, match=re.escape(f"their width, (2, 3, 5). Received: shape={shape}.")):
        attention(x, x, padding_mask=np.ones(shape))
