"""The loss counts words, not padding."""

import keras
import numpy as np
import pytest

from keras_transformer import course

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
