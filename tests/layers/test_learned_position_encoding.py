import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import LearnedPositionEncoding


@pytest.fixture
def layer() -> Any:
    layer = LearnedPositionEncoding(7)
    layer.build((None, None, 3))
    layer.set_weights([np.arange(21.0).reshape(7, 3)])
    return layer


def test_marks_are_rows_of_the_table(layer: Any) -> None:
    x = np.full((2, 2, 3), 100.0, "float32")
    assert array(layer(x))[1].tolist() == [[100, 101, 102], [103, 104, 105]]
    assert array(layer(x, start=5))[0].tolist() == [[115, 116, 117], [118, 119, 120]]


def test_a_start_that_is_a_tensor(layer: Any) -> None:
    start = keras.ops.convert_to_tensor(6)
    assert array(layer(np.zeros((1, 1, 3), "float32"), start=start)).tolist() == [[[18, 19, 20]]]


def test_positions_that_are_too_large(layer: Any) -> None:
    message = "`inputs` must end before position max_length=7. Received: start=5, length=3."
    with pytest.raises(ValueError, match=re.escape(message)):
        layer(np.zeros((1, 3, 3), "float32"), start=5)


def when_traced(layer: Any, start: int) -> np.ndarray:
    """Call a layer where a position is not known before it is run."""
    positions = keras.Input((), dtype="int32")
    x = np.zeros((1, 2, 3), "float32")
    model = keras.Model(positions, layer(x, start=positions[0]))
    return np.array(model.predict(np.array([start]), verbose=0))[0]


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="nothing is traced")
def test_positions_that_are_too_large_only_when_run(layer: Any) -> None:
    marks = when_traced(layer, 6)
    assert marks[0].tolist() == [18, 19, 20]
    assert np.isnan(marks[1]).all()
    with pytest.raises(ValueError, match=r"max_length=7\. Received: start=6, length=2\."):
        layer(np.zeros((1, 2, 3), "float32"), start=keras.ops.convert_to_tensor(6))


def test_positions_below_zero_are_no_position(layer: Any) -> None:
    x = np.zeros((1, 2, 3), "float32")
    with pytest.raises(ValueError, match=r"`start` must be at least 0\. Received: start=-1\."):
        layer(x, start=-1)
    if keras.backend.backend() != "torch":  # which traces nothing
        marks = when_traced(layer, -1)
        assert np.isnan(marks[0]).all()
        assert marks[1].tolist() == [0, 1, 2]
    assert array(layer(x, start=np.int64(5))).tolist() == [[[15, 16, 17], [18, 19, 20]]]


@pytest.mark.parametrize("width", [1, 4])
def test_inputs_of_another_width_are_refused(layer: Any, width: int) -> None:
    message = f"the layer's weights, 3. Received: shape=(2, 5, {width})."
    with pytest.raises(ValueError, match=re.escape(message)):
        layer(np.zeros((2, 5, width), "float32"))


def test_errors() -> None:
    with pytest.raises(ValueError, match=re.escape("above zero. Received: max_length=0.")):
        LearnedPositionEncoding(0)


class Wrapped(keras.layers.Layer):
    """A layer whose shapes Keras has to infer."""

    def __init__(self) -> None:
        super().__init__()
        self.marks = LearnedPositionEncoding(9)

    def call(self, inputs: Any) -> Any:
        return self.marks(inputs)


def test_inside_another_layer_with_unknown_sizes() -> None:
    assert Wrapped()(keras.Input((None, 8))).shape == (None, None, 8)


@pytest.mark.parametrize("shape", [(8, 8), (2, 1, 5, 8)])
def test_another_axis_is_not_taken_for_time(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=re.escape(f"(b, t, d). Received: shape={shape}.")):
        LearnedPositionEncoding(9)(np.zeros(shape, "float32"))


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX has no float64 by default")
def test_float64_keeps_its_digits() -> None:
    inputs = 1e4 + draw(1, 5, 16).astype("float64")
    layer = LearnedPositionEncoding(5, dtype="float64")
    encoding = array(layer(np.zeros_like(inputs)))
    np.testing.assert_allclose(array(layer(inputs)), inputs + encoding, rtol=0, atol=1e-11)
