"""What tests of all rooms share: arrays, and random numbers that are the same on every machine."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.training import Checkpoint

array = keras.ops.convert_to_numpy


def draw(*shape: int, seed: int = 0) -> Any:
    """Draw standard normal float32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def save_epochs(directory: Path, num: int = 1) -> None:
    """Leave the checkpoints of a run that has trained so many epochs."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    checkpoint = Checkpoint(directory)
    checkpoint.set_model(model)
    for epoch in range(num):
        checkpoint.on_epoch_end(epoch, {"val_loss": 1.0})
