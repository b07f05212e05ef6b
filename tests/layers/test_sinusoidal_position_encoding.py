import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.layers import sinusoidal_position_encoding


def reference(positions: Any, hidden_dim: int, max_wavelength: float = 10000.0) -> Any:
    """Section 3.5 of the paper, one number at a time, in float64."""
    encoding = np.zeros((len(positions), hidden_dim))
    for row, position in enumerate(positions):
        for i in range(hidden_dim):
            angle = position / max_wavelength ** (2 * (i // 2) / hidden_dim)
            encoding[row, i] = np.cos(angle) if i % 2 else np.sin(angle)
    return encoding


@pytest.mark.parametrize("hidden_dim", [1, 2, 7, 16, 61])
def test_against_the_paper(hidden_dim: int, close: Any) -> None:
    encoding = array(sinusoidal_position_encoding(53, hidden_dim))
    close(encoding, reference(range(53), hidden_dim), 2e-6)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("start", [4093, 123_457, 2**24 - 7])
def test_far_positions_are_as_exact_as_near_ones(start: int, is_known: bool) -> None:
    """Plain float32 is off by 4e-4 at 4,093 and by 1 at 2^24."""
    given = start if is_known else keras.ops.convert_to_tensor(start)
    encoding = array(sinusoidal_position_encoding(7, 16, start=given))
    expected = reference(range(start, start + 7), 16)
    np.testing.assert_allclose(encoding, expected, atol=2e-6 if is_known else 8e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a length that only a run knows")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_lengths_that_only_a_run_knows(jit_compile: bool) -> None:
    tf = pytest.importorskip("tensorflow")
    function = tf.function(
        lambda tokens: sinusoidal_position_encoding(tf.shape(tokens)[0], 16, start=4093),
        input_signature=[tf.TensorSpec((None,), tf.int32)],
        jit_compile=jit_compile,
    )
    encoding = array(function(np.zeros(7, "int32")))
    np.testing.assert_allclose(encoding, reference(range(4093, 4100), 16), atol=8e-6 if jit_compile else 2e-6)


@pytest.mark.parametrize("wavelength", [50.0, 0.1])
def test_wavelength(wavelength: float) -> None:
    encoding = array(sinusoidal_position_encoding(11, 6, max_wavelength=wavelength))
    np.testing.assert_allclose(encoding, reference(range(11), 6, wavelength), atol=1e-5)


def test_start() -> None:
    whole = array(sinusoidal_position_encoding(13, 8))
    for start in (5, keras.ops.convert_to_tensor(5)):
        encoding = array(sinusoidal_position_encoding(8, 8, start=start))
        np.testing.assert_allclose(encoding, whole[5:], atol=1e-6)


@pytest.mark.parametrize("hidden_dim", [7, 8])
def test_concatenated(hidden_dim: int) -> None:
    encoding = array(sinusoidal_position_encoding(11, hidden_dim, layout="concatenated"))
    interleaved = reference(range(11), hidden_dim)
    expected = np.concatenate([interleaved[:, 0::2], interleaved[:, 1::2]], axis=1)
    np.testing.assert_allclose(encoding, expected, atol=2e-6)


def test_unknown_layout() -> None:
    message = "`layout` must be one of 'interleaved', 'concatenated'. Received: layout='mixed'."
    with pytest.raises(ValueError, match=re.escape(message)):
        sinusoidal_position_encoding(3, 4, layout="mixed")
