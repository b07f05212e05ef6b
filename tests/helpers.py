"""What tests of all rooms share: arrays, and random numbers that are the same on every machine."""

from typing import Any

import keras
import numpy as np

array = keras.ops.convert_to_numpy


def draw(*shape: int, seed: int = 0) -> Any:
    """Draw standard normal float32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")
