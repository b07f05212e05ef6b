"""The second pass: only in training, only where the loss asks for it, regularizers counted once."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.models import SecondPass

X, Y = np.array([[1.0], [3.0]], "float32"), np.zeros((2, 1), "float32")


class Comparing(keras.losses.MeanSquaredError):
    """Adds 100, and keeps nothing."""

    def compare_passes(self, y_true: Any, y_pred: Any, second_y_pred: Any, sample_weight: Any) -> Any:
        return 100.0 + ops.mean(ops.abs(y_pred - second_y_pred))


class Model(SecondPass, keras.Model):
    """A model of a user's own."""


def make_model(loss: Any, regularizer: Any = None) -> keras.Model:
    inputs = keras.Input((1,))
    dense = keras.layers.Dense(1, kernel_initializer="ones", kernel_regularizer=regularizer)
    model = Model(inputs, dense(inputs))
    model.compile(keras.optimizers.SGD(0.0), loss)
    return model


def test_the_loss_is_the_mean_of_both_and_the_comparison() -> None:
    assert make_model(Comparing()).train_on_batch(X, Y) == pytest.approx(100 + 5)  # (1 + 9) / 2


def test_evaluation_has_one_pass() -> None:
    assert make_model(Comparing()).test_on_batch(X, Y) == pytest.approx(5)


def test_another_loss_is_as_ever() -> None:
    assert make_model("mse").train_on_batch(X, Y) == pytest.approx(5)


def test_a_list_of_losses_is_refused() -> None:
    with pytest.raises(ValueError, match="must be given alone, as `loss=RDropCrossentropy"):
        make_model([Comparing()]).train_on_batch(X, Y)
    assert make_model(["mse"]).train_on_batch(X, Y) == pytest.approx(5)


def test_regularizers_count_once() -> None:
    model = make_model(Comparing(), keras.regularizers.L2(7.0))
    assert model.train_on_batch(X, Y) == pytest.approx(100 + 5 + 7)


def test_every_model_here_has_it() -> None:
    for kind in (kt.Transformer, kt.CausalLM, kt.EncoderModel):
        assert issubclass(kind, SecondPass)
