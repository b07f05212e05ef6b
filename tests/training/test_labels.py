"""Which labels count, which a vocabulary has, and which shapes are refused."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.training import MaskedAccuracy, MaskedCrossentropy
from keras_transformer.training.losses import known_labels, padding_as_zero, token_weights

LABELS = np.array([[5, 2, 6, 0, 0], [1, 3, 0, 0, 0], [4, 4, 4, 6, 1]], dtype="int32")


def test_token_weights_are_zero_for_padding() -> None:
    weights = ops.convert_to_numpy(token_weights(LABELS, 0, np.array([1.0, 2.0, 0.0])))
    np.testing.assert_array_equal(weights, [[1, 1, 1, 0, 0], [2, 2, 0, 0, 0], [0, 0, 0, 0, 0]])


def test_labels_outside_the_vocabulary_are_found() -> None:
    labels, is_known = (ops.convert_to_numpy(each) for each in known_labels(np.array([[-1, 0, 6, 7]]), 7))
    np.testing.assert_array_equal(labels, [[0, 0, 6, 0]])
    np.testing.assert_array_equal(is_known, [[False, True, True, False]])


@pytest.mark.parametrize("pad_id", [-100, 0, 4, 1000])
def test_padding_gets_a_label_of_every_vocabulary(pad_id: int) -> None:
    labels = ops.convert_to_numpy(padding_as_zero(np.where(LABELS == 0, pad_id, LABELS), pad_id))
    np.testing.assert_array_equal(labels, np.where(pad_id == LABELS, 0, LABELS))


@pytest.mark.parametrize(
    ("shape", "logits_shape"), [((3,), (3, 2)), ((3, 4, 7), (3, 4, 7)), ((3, 4, 1), (3, 4, 7))]
)
def test_other_shapes_are_refused(shape: tuple[int, ...], logits_shape: tuple[int, ...]) -> None:
    labels, logits = np.ones(shape, "int32"), np.ones(logits_shape, "float32")
    message = r"Labels must be integers \(b, t\) beside logits \(b, t, v\).* Received: labels of shape"
    with pytest.raises(ValueError, match=message):
        MaskedCrossentropy()(labels, logits)
    with pytest.raises(ValueError, match=message):
        MaskedAccuracy().update_state(labels, logits)


def test_a_forgotten_shift_is_named() -> None:
    with pytest.raises(ValueError, match=r"labels of shape \(2, 3\), logits of shape \(2, 4, 7\)"):
        MaskedCrossentropy()(np.ones((2, 3), "int32"), np.ones((2, 4, 7), "float32"))


def test_sample_weights_of_another_rank_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(b,\) or \(b, t\).* Received: .* \(2, 2, 1\)"):
        token_weights(np.ones((2, 2), "int32"), 0, np.ones((2, 2, 1)))
