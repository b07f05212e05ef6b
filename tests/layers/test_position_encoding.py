import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import LearnedPositionEncoding, PositionEncoding, sinusoidal_position_encoding


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
    with pytest.raises(ValueError, match=re.escape(message)):
        sinusoidal_position_encoding(3, 4, max_wavelength=wavelength)


@pytest.mark.parametrize("make", [int, np.int64, np.array, lambda n: keras.ops.convert_to_tensor(n)])
def test_positions_that_were_not_learned_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=re.escape("max_length=5. Received: start=99, length=2.")):
        LearnedPositionEncoding(5)(np.zeros((1, 2, 8), "float32"), start=make(99))
    with pytest.raises(TypeError, match=re.escape("`start` must be an integer. Received: start=1.5.")):
        PositionEncoding()(np.zeros((1, 2, 8), "float32"), start=1.5)


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


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX has no float64 by default")
def test_float64_keeps_its_digits() -> None:
    inputs = 1e4 + draw(1, 5, 16).astype("float64")
    layer = PositionEncoding(dtype="float64")
    encoding = array(layer(np.zeros_like(inputs)))
    np.testing.assert_allclose(array(layer(inputs)), inputs + encoding, rtol=0, atol=1e-11)


MASK = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])


@pytest.mark.parametrize("layer_class", [PositionEncoding, lambda: LearnedPositionEncoding(9)])
def test_a_mask_is_read_as_every_layer_reads_it(layer_class: Any) -> None:
    layer, x = layer_class(), np.zeros((2, 5, 8), "float32")
    expected = array(layer(x, padding_mask=MASK))
    np.testing.assert_array_equal(expected[0, 2:], array(layer(x))[0, :3])
    np.testing.assert_array_equal(array(layer(x, padding_mask=MASK.tolist())), expected)
    for wrong in (np.where(MASK, 0, -1e9), MASK * 0.5):
        with pytest.raises(ValueError, match=r"`padding_mask` must hold 1 where .* Received: (-1|0.5)"):
            layer(x, padding_mask=wrong)
    if keras.backend.backend() != "torch":  # which runs eagerly
        inputs = [keras.Input((None, 8)), keras.Input((None,), dtype="int32")]
        model = keras.Model(inputs, layer(inputs[0], padding_mask=inputs[1]))
        np.testing.assert_array_equal(model.predict([x, MASK], verbose=0), expected)
        assert np.isnan(model.predict([x, MASK - 1], verbose=0)).all()
    for shape in ((2, 3), (2, 1), (2, 1, 5), (5,), (3, 5)):
        message = f"`padding_mask` must have the shape (b, s) = (2, 5). Received: shape={shape}."
        with pytest.raises(ValueError, match=re.escape(message)):
            layer(x, padding_mask=np.ones(shape))
