"""Formulas of layers against their definition; dropout and normalisation are tested with their layers."""

from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer._backend import position_angles


@pytest.mark.parametrize("start", [0, keras.ops.convert_to_tensor(0)])
def test_angles_of_a_quarter_turn(start: Any) -> None:
    angles = array(position_angles(start, 5, np.array([np.pi / 2]))) % (2 * np.pi)
    np.testing.assert_allclose(angles[:, 0], [0, np.pi / 2, np.pi, 3 * np.pi / 2, 0], atol=1e-6)
