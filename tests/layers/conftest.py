"""Gradients for the tests of layers, on whatever backend Keras uses."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pytest

Function = Callable[[Any], Any]
Array = npt.NDArray[np.float32]


def _tensorflow(function: Function, at: Array) -> Any:
    tf = pytest.importorskip("tensorflow")
    inputs = tf.constant(at)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = keras.ops.sum(function(inputs))
    return tape.gradient(total, inputs)


def _jax(function: Function, at: Array) -> Any:
    jax = pytest.importorskip("jax")
    return jax.grad(lambda inputs: keras.ops.sum(function(inputs)))(at)


def _torch(function: Function, at: Array) -> Any:
    torch = pytest.importorskip("torch")
    inputs = torch.tensor(at, requires_grad=True)
    keras.ops.sum(function(inputs)).backward()
    return inputs.grad


@pytest.fixture
def input_gradient() -> Callable[[Function, Array], Array]:
    """Gives the gradient of the sum of a function's result, at an array."""
    gradient = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()]
    return lambda function, at: np.asarray(keras.ops.convert_to_numpy(gradient(function, at)))
