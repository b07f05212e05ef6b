import re

import keras
import numpy as np
import pytest

from keras_transformer.layers.normalization import make_normalization

X = np.array([[[3.0, 4.0, -1.0]]], "float32")


def normalized(kind: str, epsilon: float = 1e-6) -> np.ndarray:
    layer = make_normalization(kind, epsilon=epsilon, dtype="float32", name="norm")
    return keras.ops.convert_to_numpy(layer(X))


def test_layer_normalization() -> None:
    np.testing.assert_allclose(normalized("layer"), (X - 2) / np.sqrt(14 / 3), atol=1e-5)


def test_rms_normalization() -> None:
    np.testing.assert_allclose(normalized("rms"), X / np.sqrt(26 / 3), atol=1e-5)


def test_epsilon() -> None:
    np.testing.assert_allclose(normalized("layer", 3.0), (X - 2) / np.sqrt(14 / 3 + 3), atol=1e-5)


def test_unknown_kind() -> None:
    message = "`normalization` must be one of 'layer', 'rms'. Received: normalization='batch'."
    with pytest.raises(ValueError, match=re.escape(message)):
        make_normalization("batch", epsilon=1e-6, dtype="float32", name="norm")
