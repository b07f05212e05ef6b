"""The functions of the assignments, in the style of their public tests."""

from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer import course

Q = np.array([[1, 0, 1, 1], [0, 1, 1, 1], [1, 0, 0, 1]])
K = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]])
V = np.array([[0, 0], [1, 0], [1, 0], [1, 1]])


def softmax(logits: Any) -> Any:
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def test_get_angles() -> None:
    # The example of the assignment: four columns, eight positions.
    angles = course.get_angles(np.arange(8)[:, np.newaxis], np.arange(4)[np.newaxis, :], 4)
    expected = [[position, position, position / 100, position / 100] for position in range(8)]
    assert isinstance(angles, np.ndarray)
    np.testing.assert_allclose(angles, expected, rtol=1e-12)
    encoding = array(course.positional_encoding(8, 4))[0]
    np.testing.assert_allclose(encoding[:, 0::2], np.sin(angles[:, 0::2]), atol=1e-6)


def test_positional_encoding() -> None:
    encoding = course.positional_encoding(7, 16)
    assert keras.ops.is_tensor(encoding)
    assert tuple(encoding.shape) == (1, 7, 16)
    assert keras.backend.standardize_dtype(encoding.dtype) == "float32"
    angles = np.arange(7)[:, None] / 10000 ** (2 * (np.arange(16) // 2) / 16)
    np.testing.assert_allclose(array(encoding)[0, :, 0::2], np.sin(angles[:, 0::2]), atol=1e-6)
    np.testing.assert_allclose(array(encoding)[0, :, 1::2], np.cos(angles[:, 1::2]), atol=1e-6)


def test_create_padding_mask() -> None:
    mask = array(course.create_padding_mask(np.array([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0]])))
    assert (mask.shape, mask.dtype) == ((2, 1, 5), np.float32)
    np.testing.assert_array_equal(mask, [[[1, 1, 0, 0, 1]], [[1, 1, 1, 0, 0]]])


def test_create_look_ahead_mask() -> None:
    mask = array(course.create_look_ahead_mask(3))
    assert (mask.shape, mask.dtype) == ((1, 3, 3), np.float32)
    np.testing.assert_array_equal(mask, [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]])


def test_create_look_ahead_mask_of_a_length_only_known_when_run(compiled: Any) -> None:
    @compiled
    def mask_for(tokens: Any) -> Any:
        return course.create_look_ahead_mask(keras.ops.shape(tokens)[1])

    np.testing.assert_array_equal(array(mask_for(np.zeros((2, 5)))), np.tril(np.ones((1, 5, 5))))


def test_attention_by_hand() -> None:
    # One query that fits the first key with a score of 2 log 3 / sqrt(4): three times as well.
    query = np.array([[2 * np.log(3.0), 0, 0, 0]], "float32")
    key = np.array([[1, 0, 0, 0], [0, 1, 0, 0]], "float32")
    output, weights = course.scaled_dot_product_attention(query, key, np.array([[4.0], [8.0]]))
    np.testing.assert_allclose(array(weights), [[0.75, 0.25]], atol=1e-6)
    np.testing.assert_allclose(array(output), [[5.0]], atol=1e-5)


def test_attention_of_integers_without_a_batch() -> None:
    output, weights = course.scaled_dot_product_attention(Q, K, V, None)
    expected = softmax(Q @ K.T / 2)
    assert keras.ops.is_tensor(weights)
    np.testing.assert_allclose(array(weights), expected, atol=1e-6)
    np.testing.assert_allclose(array(output), expected @ V, atol=1e-6)


def test_a_mask_of_a_higher_rank_gives_its_rank() -> None:
    mask = np.array([[[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0]]])
    output, weights = course.scaled_dot_product_attention(Q, K, V, mask)
    expected = np.where(mask, softmax(np.where(mask, Q @ K.T / 2, -1e9)), 0)
    assert (tuple(output.shape), tuple(weights.shape)) == ((1, 3, 2), (1, 3, 4))
    np.testing.assert_allclose(array(weights), expected, atol=1e-6)
    np.testing.assert_allclose(array(output), expected @ V, atol=1e-6)
    assert np.all(array(output)[0, 2] == 0)  # nothing to attend to


@pytest.mark.parametrize("leading", [(), (2,), (2, 5)])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_attention_of_every_rank_and_dtype(leading: tuple[int, ...], dtype: str) -> None:
    generator = np.random.default_rng(0)
    q, k, v = (
        generator.normal(size=(*leading, *size)).astype("float32") for size in ((3, 11), (7, 11), (7, 13))
    )
    mask = np.tile(generator.integers(0, 2, (3, 7)), (*leading, 1, 1)).astype(dtype)
    mask[..., 0] = 1
    output, weights = course.scaled_dot_product_attention(q, k, v, mask)
    expected = softmax(np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(11), -1e9))
    np.testing.assert_allclose(array(weights), expected, atol=1e-5)
    np.testing.assert_allclose(array(output), expected @ v, atol=1e-5)


def test_attention_with_wrong_arguments() -> None:
    attend = course.scaled_dot_product_attention
    with pytest.raises(
        ValueError, match=r"same rank, 2 to 4. Received: shapes \(3, 4\), \(1, 4, 4\), \(4, 2\)"
    ):
        attend(Q, K[None], V)
    with pytest.raises(ValueError, match=r"same rank, 2 to 4. Received: shapes \(4,\), "):
        attend(Q[0], K[0], V[0])
    with pytest.raises(ValueError, match=r"Received: mask of shape \(1, 1, 1, 3, 4\)"):
        attend(Q, K, V, np.ones((1, 1, 1, 3, 4)))
    with pytest.raises(ValueError, match=r"mask of shape \(3, 5\), scores of shape \(1, 1, 3, 4\)"):
        attend(Q, K, V, np.ones((3, 5)))
    with pytest.raises(ValueError, match=r"mask of shape \(2, 3, 4\), scores of shape \(1, 1, 3, 4\)"):
        attend(Q, K, V, np.ones((2, 3, 4)))  # would have widened the scores


def test_fully_connected() -> None:
    network = course.FullyConnected(5, 7)
    x = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    assert isinstance(network, keras.Sequential)
    outputs = array(network(x))
    kernel1, bias1, kernel2, bias2 = network.get_weights()
    assert (kernel1.shape, kernel2.shape) == ((5, 7), (7, 5))
    np.testing.assert_allclose(outputs, np.maximum(x @ kernel1 + bias1, 0) @ kernel2 + bias2, atol=1e-5)


def test_a_mask_for_each_row_covers_every_head() -> None:
    """Also where there are as many heads as rows."""
    q = np.random.default_rng(0).normal(size=(2, 2, 3, 4)).astype("float32")
    mask = course.create_padding_mask(np.array([[1, 2, 0], [1, 0, 0]]))  # (n, 1, m)
    _, weights = course.scaled_dot_product_attention(q, q, q, mask)
    seen = array(weights) > 0
    assert seen[0].all(axis=(0, 1)).tolist() == [True, True, False]
    assert seen[1].all(axis=(0, 1)).tolist() == [True, False, False]


def test_a_mask_that_would_be_added_is_refused() -> None:
    with pytest.raises(ValueError, match="`mask` must hold 1 where a key may be attended to"):
        course.scaled_dot_product_attention(np.eye(2), np.eye(2), np.eye(2), np.array([[0, -1e9], [0, 0]]))


REAL = np.array([[2, 1, 0], [1, 0, 0]])
PRED = np.full((2, 3, 4), 0.25, "float32")


def test_by_hand() -> None:
    pred = PRED.copy()
    pred[0, 0] = [0.1, 0.2, 0.5, 0.2]
    pred[0, 2] = [0.97, 0.01, 0.01, 0.01]  # padding, which does not count
    expected = (np.log(2) + np.log(4) + np.log(4)) / 3
    assert float(course.masked_loss(REAL, pred)) == pytest.approx(expected, abs=1e-6)
    assert float(course.masked_loss(REAL.astype("float32"), pred)) == pytest.approx(expected, abs=1e-6)


def test_no_word_at_all() -> None:
    assert float(course.masked_loss(np.zeros((2, 3)), PRED)) == 0.0


def test_as_a_loss_of_fit() -> None:
    model = keras.Sequential([keras.Input((3, 4)), keras.layers.Softmax()])
    model.compile("sgd", course.masked_loss)
    loss = model.evaluate(np.zeros((2, 3, 4)), REAL, verbose=0)
    assert loss == pytest.approx(np.log(4), abs=1e-5)


def test_it_is_registered() -> None:
    name = keras.saving.get_registered_name(course.masked_loss)
    assert name == "keras_transformer.course>masked_loss"


SOURCE = np.array([[4, 2, 0], [3, 3, 3]])


def test_the_most_likely_word_behind_the_last_one() -> None:
    calls: list[Any] = []

    def model(*args: Any) -> Any:
        calls.append(args)
        return np.eye(5, dtype="float32")[[[1, 2], [3, 4]]], {}  # certain of 2 and 4 behind the last word

    words = course.next_word(model, SOURCE, np.array([[1, 4], [1, 3]]))
    assert keras.backend.standardize_dtype(words.dtype) == "int32"
    np.testing.assert_array_equal(array(words), [[2], [4]])
    [(source, output, training, enc_padding_mask, look_ahead_mask, dec_padding_mask)] = calls
    assert not training
    np.testing.assert_array_equal(array(source), SOURCE)
    np.testing.assert_array_equal(array(output), [[1, 4], [1, 3]])
    for mask in (enc_padding_mask, dec_padding_mask):
        np.testing.assert_array_equal(array(mask), [[[1, 1, 0]], [[1, 1, 1]]])
    np.testing.assert_array_equal(array(look_ahead_mask), [[[1, 0], [1, 1]]])


def test_with_the_model_of_the_course() -> None:
    model = course.Transformer(1, 7, 2, 11, 5, 13, 8, 6)
    output = np.array([[1, 4]])
    padding, look_ahead = np.array([[[1, 1, 0]]]), np.tril(np.ones((1, 2, 2)))
    probabilities, _ = model(SOURCE[:1], output, False, padding, look_ahead, padding)
    word = course.next_word(model, SOURCE[:1], output)
    assert array(word).tolist() == [[int(np.argmax(array(probabilities)[0, -1]))]]


class OfAStudent(keras.Model):
    """A model with names of its own, in Keras 3, which takes no boolean by position."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = course.Transformer(1, 7, 2, 11, 5, 13, 8, 6)

    def call(
        self, sentence: Any, so_far: Any, training: Any, padding: Any, look_ahead: Any, decoder_padding: Any
    ) -> Any:
        return self.inner(sentence, so_far, training, padding, look_ahead, decoder_padding)


def test_with_the_model_of_a_student() -> None:
    model, output = OfAStudent(), np.array([[1, 4]])
    word = course.next_word(model, SOURCE[:1], output)
    np.testing.assert_array_equal(array(word), array(course.next_word(model.inner, SOURCE[:1], output)))
