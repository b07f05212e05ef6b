"""Masks of `MultiHeadAttention`: each is heard, whatever way it comes in."""

import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw, input_gradient
from keras_transformer.layers import MultiHeadAttention


def randomized(layer: Any, *inputs: Any) -> Any:
    layer(*inputs)
    layer.set_weights([0.5 * draw(*weight.shape, seed=number) for number, weight in enumerate(layer.weights)])
    return layer


@pytest.fixture
def attention() -> Any:
    return randomized(MultiHeadAttention(2, 5), draw(1, 1, 7), draw(1, 1, 7))


def scores_of(layer: Any, *inputs: Any, **masks: Any) -> Any:
    return array(layer(*inputs, **masks, return_attention_scores=True)[1])


LOWER = np.tril(np.ones((5, 5), bool))


@pytest.mark.parametrize("mask", [LOWER, LOWER.astype("int32"), LOWER.astype("float32"), LOWER[None]])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_the_fourth_argument_is_the_attention_mask(attention: Any, mask: Any, as_tensor: bool) -> None:
    """`keras.layers.MultiHeadAttention` takes it for another one, and drops it without a word."""
    x = draw(2, 5, 7)
    mask = keras.ops.convert_to_tensor(mask) if as_tensor else mask
    positional = array(attention(x, x, x, mask))
    np.testing.assert_array_equal(positional, array(attention(x, x, x, attention_mask=mask)))
    np.testing.assert_allclose(positional, array(attention(x, x, use_causal_mask=True)), atol=1e-6)
    assert np.abs(positional - array(attention(x, x, x))).max() > 1e-2


def test_the_fifth_argument_is_the_padding_mask(attention: Any) -> None:
    x, padding = draw(2, 3, 7), np.array([[1, 1, 0], [1, 0, 0]], bool)
    positional = array(attention(x, x, x, None, padding))
    np.testing.assert_array_equal(positional, array(attention(x, x, padding_mask=padding)))
    np.testing.assert_allclose(positional[:1], array(attention(x[:1], x[:1, :2])), atol=1e-6)


def test_a_square_padding_mask_covers_keys(attention: Any) -> None:
    x, square = draw(3, 3, 7), np.tril(np.ones((3, 3), bool))
    by_key = scores_of(attention, x, x, padding_mask=square)
    by_query = scores_of(attention, x, x, attention_mask=square)
    np.testing.assert_array_equal(by_key > 0, np.broadcast_to(square[:, None, None], (3, 2, 3, 3)))
    np.testing.assert_array_equal(by_query > 0, np.broadcast_to(square, (3, 2, 3, 3)))


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (2, 1, 3, 5), (2, 2, 3, 5), (2, 1, 5), (1, 1, 5)])
def test_attention_mask_shapes(attention: Any, shape: tuple[int, ...]) -> None:
    query, value, mask = draw(2, 3, 7), draw(2, 5, 7, seed=1), draw(*shape, seed=4) > -0.5
    mask[..., 0] = True
    heads = mask if len(shape) != 3 else mask[:, None]
    expected = np.broadcast_to(heads, (2, 2, 3, 5))
    np.testing.assert_array_equal(scores_of(attention, query, value, attention_mask=mask) > 0, expected)


def test_masks_are_combined(attention: Any) -> None:
    x, padding = draw(1, 3, 7), np.array([[0, 1, 1]])
    mask = np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0]])
    scores = scores_of(attention, x, x, attention_mask=mask, padding_mask=padding, use_causal_mask=True)
    assert (scores[0, 0] > 0).astype(int).tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 0]]


def embedded(token_ids: Any, seed: int = 0) -> Any:
    embedding = keras.layers.Embedding(11, 7, mask_zero=True, embeddings_initializer=draw_initializer(seed))
    return embedding(np.array(token_ids))


def draw_initializer(seed: int) -> Any:
    return keras.initializers.RandomNormal(stddev=1.0, seed=seed)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_the_mask_of_an_embedding_is_read(policy: str) -> None:
    x = embedded([[3, 5, 0], [2, 0, 0]])
    scores = scores_of(MultiHeadAttention(2, 5, dtype=policy), x, x)
    assert (scores[:, 0, 0] > 0).astype(int).tolist() == [[1, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize("masked", ["key", "value", "both"])
def test_the_masks_of_key_and_value_are_read(masked: str) -> None:
    query, plain = draw(1, 2, 7), draw(1, 3, 7)
    value = plain if masked == "key" else embedded([[3, 5, 0]])
    key = plain if masked == "value" else embedded([[0, 5, 4]])
    scores = scores_of(MultiHeadAttention(2, 5), query, value, key)
    expected = {"key": [0, 1, 1], "value": [1, 1, 0], "both": [0, 1, 0]}[masked]
    assert (scores[0, 0, 0] > 0).astype(int).tolist() == expected


def test_an_explicit_padding_mask_wins() -> None:
    x = embedded([[3, 5, 0]])
    scores = scores_of(MultiHeadAttention(2, 5), x, x, padding_mask=np.array([[1, 0, 1]]))
    assert (scores[0, 0, 0] > 0).astype(int).tolist() == [1, 0, 1]


def test_an_implicit_mask_stays_beside_an_attention_mask() -> None:
    x = embedded([[3, 5, 0]])
    scores = scores_of(MultiHeadAttention(2, 5), x, x, x, np.array([[0, 1, 1]] * 3))
    assert (scores[0, 0, 0] > 0).astype(int).tolist() == [0, 1, 0]


def test_the_mask_of_the_query_goes_on() -> None:
    outputs = MultiHeadAttention(2, 5)(embedded([[3, 0]]), draw(1, 5, 7))
    scores = scores_of(MultiHeadAttention(2, 5), outputs, outputs)
    assert (scores[0, 0, 0] > 0).astype(int).tolist() == [1, 0]


@pytest.mark.filterwarnings("ignore:`.+_mask` hides all keys")
@pytest.mark.parametrize("training", [False, True])
def test_rows_with_nothing_to_attend_to(attention: Any, training: bool) -> None:
    x, mask = draw(2, 5, 7), np.ones((2, 5, 5), bool)
    mask[0, 3] = False
    output, scores = attention(x, x, attention_mask=mask, return_attention_scores=True, training=training)
    assert np.all(array(scores)[0, :, 3] == 0)
    np.testing.assert_array_equal(array(output)[0, 3], array(attention.output_dense.bias))
    np.testing.assert_allclose(array(scores)[1].sum(-1), 1.0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:`.+_mask` hides all keys")
def test_only_queries_without_a_key_differ_from_keras() -> None:
    x, mask = draw(2, 5, 7), np.ones((2, 5, 5), bool)
    mask[0, 3], mask[1, 2] = False, False
    layer, theirs = MultiHeadAttention(3, 5), keras.layers.MultiHeadAttention(3, 5)
    ours = array(layer(x, x, attention_mask=mask))
    theirs(x, x)
    theirs.set_weights(layer.get_weights())
    differ = np.abs(array(theirs(x, x, attention_mask=mask)) - ours).max(-1) > 1e-5
    assert np.argwhere(differ).tolist() == [[0, 3], [1, 2]]


def test_gradients_with_nothing_to_attend_to(attention: Any) -> None:
    padding = np.array([[0, 0, 0], [1, 0, 1]])
    gradient = input_gradient(lambda x: attention(x, x, padding_mask=padding), draw(2, 3, 7))
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[0] == 0)
    assert np.any(gradient[1] != 0)


SIZES = "(b, h, t, s) = (2, 2, 1, 5)"


@pytest.mark.parametrize(
    ("masks", "wanted"),
    [
        ({"attention_mask": np.ones((7, 5))}, SIZES),
        ({"attention_mask": np.ones((4, 1, 5))}, SIZES),
        ({"attention_mask": np.ones((2, 3, 1, 5))}, SIZES),
        ({"attention_mask": np.ones(5)}, SIZES),
        ({"padding_mask": np.ones((2, 6))}, "(b, s) = (2, 5)"),
        ({"padding_mask": np.ones((2, 1, 5))}, "(b, s) = (2, 5)"),
    ],
)
def test_masks_of_the_wrong_size_or_rank(attention: Any, masks: Any, wanted: str) -> None:
    [(name, mask)] = masks.items()
    message = (
        f"`{name}` must have the shape .*{re.escape(wanted)}. Received: shape={re.escape(str(mask.shape))}."
    )
    with pytest.raises(ValueError, match=message):
        attention(draw(2, 1, 7), draw(2, 5, 7), **masks)


@pytest.mark.parametrize("name", ["attention_mask", "padding_mask", "query_mask"])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_a_compiled_call_does_not_hide_all_keys_for_an_additive_mask(name: str, dtype: str) -> None:
    shape = (5, 5) if name == "attention_mask" else (5,)
    inputs = [keras.Input((5, 7)), keras.Input(shape, dtype=dtype)]
    layer = MultiHeadAttention(2, 5)
    model = keras.Model(inputs, layer(inputs[0], inputs[0], **{name: inputs[1]}))
    x, mask = (
        draw(2, 5, 7),
        np.tile(LOWER[-len(shape) :][-1] if len(shape) == 1 else LOWER, (2, *[1] * len(shape))),
    )
    mask[1, ..., -1] = False
    expected = array(layer(x, x, **{name: mask}))
    np.testing.assert_allclose(model.predict([x, mask.astype(dtype)], verbose=0), expected, atol=1e-6)
    if dtype != "bool":
        additive = np.where(mask, 0, -1_000_000_000).astype(dtype)
        if keras.backend.backend() == "torch":  # which runs eagerly
            with pytest.raises(ValueError, match="must hold 1 where a key may be attended to"):
                model.predict([x, additive], verbose=0)
        else:
            assert np.isnan(model.predict([x, additive], verbose=0)).all()
