import re
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.layers import PositionEncoding, sinusoidal_position_encoding

array = keras.ops.convert_to_numpy


def reference(positions: Any, hidden_dim: int, max_wavelength: float = 10000.0) -> Any:
    """Section 3.5 of the paper, one number at a time, in float64."""
    encoding = np.zeros((len(positions), hidden_dim))
    for row, position in enumerate(positions):
        for i in range(hidden_dim):
            angle = position / max_wavelength ** (2 * (i // 2) / hidden_dim)
            encoding[row, i] = np.cos(angle) if i % 2 else np.sin(angle)
    return encoding


@pytest.mark.parametrize("hidden_dim", [1, 2, 7, 16, 61])
def test_against_the_paper(hidden_dim: int) -> None:
    encoding = array(sinusoidal_position_encoding(53, hidden_dim))
    np.testing.assert_allclose(encoding, reference(range(53), hidden_dim), atol=1e-5)


def test_far_positions() -> None:
    # At 2,000 a float32 angle is known to 1e-4.
    encoding = array(sinusoidal_position_encoding(3, 16, start=2000))
    np.testing.assert_allclose(encoding, reference(range(2000, 2003), 16), atol=5e-4)


def test_wavelength() -> None:
    encoding = array(sinusoidal_position_encoding(11, 6, max_wavelength=50.0))
    np.testing.assert_allclose(encoding, reference(range(11), 6, 50.0), atol=1e-5)


def test_start() -> None:
    whole = array(sinusoidal_position_encoding(13, 8))
    for start in (5, keras.ops.convert_to_tensor(5)):
        encoding = array(sinusoidal_position_encoding(8, 8, start=start))
        np.testing.assert_allclose(encoding, whole[5:], atol=1e-6)


def test_layer_adds_the_marks() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5, 7)).astype("float32")
    np.testing.assert_allclose(array(PositionEncoding()(x)), x + reference(range(5), 7), atol=1e-5)
    np.testing.assert_allclose(
        array(PositionEncoding()(x, start=3)), x + reference(range(3, 8), 7), atol=1e-5
    )


# Two halves of the distance between neighbouring numbers below 1.
@pytest.mark.parametrize(("dtype", "rounding"), [("float16", 2.0**-12), ("bfloat16", 2.0**-9)])
@pytest.mark.parametrize("policy", ["mixed_{}", "{}"])
def test_exact_in_half_precision(policy: str, dtype: str, rounding: float) -> None:
    layer = PositionEncoding(dtype=policy.format(dtype))
    marks = layer(keras.ops.zeros((1, 512, 64), dtype))
    assert keras.backend.standardize_dtype(marks.dtype) == dtype
    values = array(keras.ops.cast(marks, "float32"))[0]
    np.testing.assert_allclose(values, reference(range(512), 64), atol=rounding + 1e-4)
    assert np.all(np.any(values[1:] != values[:-1], axis=1)), "neighbouring positions are equal"


@pytest.mark.parametrize("wavelength", [0.0, -1.0, float("nan")])
def test_errors(wavelength: float) -> None:
    message = f"`max_wavelength` must be above zero. Received: max_wavelength={wavelength}."
    with pytest.raises(ValueError, match=re.escape(message)):
        PositionEncoding(max_wavelength=wavelength)
