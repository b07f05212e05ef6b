import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.layers import PositionEncoding, sinusoidal_position_encoding


def marks(length: int, hidden_dim: int, start: int = 0, layout: str = "interleaved") -> np.ndarray:
    return array(sinusoidal_position_encoding(length, hidden_dim, start=start, layout=layout))


def test_layer_adds_the_marks() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 7)).astype("float32")
    np.testing.assert_allclose(array(PositionEncoding()(x)), x + marks(5, 7), atol=1e-6)
    np.testing.assert_allclose(array(PositionEncoding()(x, start=3)), x + marks(5, 7, 3), atol=1e-6)
    concatenated = PositionEncoding(layout="concatenated")
    np.testing.assert_allclose(array(concatenated(x)), x + marks(5, 7, 0, "concatenated"), atol=1e-6)


# Two halves of the distance between neighbouring numbers below 1.
@pytest.mark.parametrize(("dtype", "rounding"), [("float16", 2.0**-12), ("bfloat16", 2.0**-9)])
@pytest.mark.parametrize("policy", ["mixed_{}", "{}"])
@pytest.mark.parametrize("start", [0, 5000])
def test_exact_in_half_precision(start: int, policy: str, dtype: str, rounding: float) -> None:
    layer = PositionEncoding(dtype=policy.format(dtype))
    encoding = layer(keras.ops.zeros((1, 512, 64), dtype), start=start)
    assert keras.backend.standardize_dtype(encoding.dtype) == dtype
    values = array(keras.ops.cast(encoding, "float32"))[0]
    np.testing.assert_allclose(values, marks(512, 64, start), atol=rounding + 1e-6)
    assert np.all(np.any(values[1:] != values[:-1], axis=1)), "neighbouring positions are equal"


@pytest.mark.parametrize("wavelength", [0.0, -1.0, float("nan")])
def test_wavelengths_not_above_zero(wavelength: float) -> None:
    message = f"`max_wavelength` must be above zero and finite. Received: max_wavelength={wavelength}."
    with pytest.raises(ValueError, match=re.escape(message)):
        PositionEncoding(max_wavelength=wavelength)


def test_positions_that_do_not_count_up() -> None:
    x = np.zeros((2, 4, 6), "float32")
    marks = array(PositionEncoding()(x))[0]
    positions = [[0, 1, 0, 1], [3, 2, 1, 0]]
    np.testing.assert_allclose(array(PositionEncoding()(x, start=5, positions=positions)), marks[positions])
    for wrong in ([[0, 1, 2, 4]] * 2, [[0, 1, 2, -1]] * 2):
        with pytest.raises(ValueError, match=r"`positions` must be at least 0 and below 4\. Received: from"):
            PositionEncoding()(x, positions=wrong)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="values that only a run knows")
def test_positions_out_of_range_while_a_graph_is_traced() -> None:
    import tensorflow as tf

    x = np.zeros((1, 4, 6), "float32")
    encode = tf.function(PositionEncoding(), input_signature=None)
    marks = encode(x, positions=tf.constant([[0, 4, 3, -1]]))[0]
    assert np.isnan(array(marks)).all(axis=-1).tolist() == [False, True, False, True]


@pytest.mark.parametrize("make", [lambda: np.int64(3), lambda: keras.ops.convert_to_tensor(3, "int16")])
def test_a_start_of_any_integer_type(make: Any) -> None:
    x = np.zeros((1, 4, 6), "float32")
    np.testing.assert_allclose(
        array(PositionEncoding()(x, start=make())), array(PositionEncoding()(x, start=3)), atol=1e-6
    )


def test_unknown_layout() -> None:
    with pytest.raises(ValueError, match=re.escape("Received: layout='mixed'.")):
        PositionEncoding(layout="mixed")


@pytest.mark.parametrize("shape", [(8, 8), (2, 1, 5, 8)])
def test_another_axis_is_not_taken_for_time(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=re.escape(f"(b, t, d). Received: shape={shape}.")):
        PositionEncoding()(np.zeros(shape, "float32"))


@pytest.mark.parametrize(("batch_size", "shape"), [(1, (3, 4)), (4, (4, 4, 1)), (2, (2, 1)), (2, (4,))])
def test_positions_of_another_size_are_refused(batch_size: int, shape: tuple[int, ...]) -> None:
    message = f"`positions` must have the shape (b, t) = ({batch_size}, 4). Received: shape={shape}."
    with pytest.raises(ValueError, match=re.escape(message)):
        PositionEncoding()(np.zeros((batch_size, 4, 8), "float32"), positions=np.zeros(shape, "int32"))
