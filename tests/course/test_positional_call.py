"""Every argument of `call` may come by position, as nowhere else in Keras 3."""

from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.course.layers import _PositionalCall

X = np.arange(6, dtype="float32").reshape(2, 3)


class Recorder(_PositionalCall):
    """Returns its input, and keeps what else it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.supports_masking = True

    def call(self, x: Any, other: Any = None, training: bool | None = None, mask: Any = None) -> Any:
        self.received = (training, None if mask is None else array(mask).tolist())
        return x if other is None else x + other


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "positional": ((X, X, True, np.array([1, 0])), {}),
    "keyword": ((), {"mask": np.array([1, 0]), "training": True, "x": X, "other": X}),
    "mixed": ((X, X, True), {"mask": np.array([1, 0])}),
}


def test_keras_refuses_what_is_allowed_here() -> None:
    class Plain(keras.layers.Layer):
        def call(self, x: Any, training: bool | None = None) -> Any:
            return x

    with pytest.raises(ValueError, match="Only input tensors may be passed as"):
        Plain()(X, True)


@pytest.mark.parametrize("name", CALLS)
def test_the_call_styles_are_the_same(name: str) -> None:
    args, kwargs = CALLS[name]
    layer = Recorder()
    np.testing.assert_array_equal(array(layer(*args, **kwargs)), 2 * X)
    assert layer.received == (True, [1, 0])


def test_training_reaches_layers_inside() -> None:
    class Outer(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Recorder()

        def call(self, x: Any) -> Any:
            return self.inner(x)

    outer = Outer()
    outer(X, training=True)
    assert outer.inner.received == (True, None)
    outer.inner(X, None, False)
    assert outer.inner.received == (False, None)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing a required argument: 'x'"),
        ((X, X), {"other": X}, "multiple values for argument 'other'"),
        ((X,), {"look_ahead": X}, "unexpected keyword argument 'look_ahead'"),
    ],
)
def test_wrong_arguments(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Recorder()(*args, **kwargs)


def test_symbolic_calls_make_a_functional_model() -> None:
    inputs = keras.Input((3,))
    model = keras.Model(inputs, Recorder()(inputs, inputs, False))
    np.testing.assert_array_equal(array(model(X)), 2 * X)
