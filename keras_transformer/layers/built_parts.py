"""Helpers for sub-layers that a layer creates in `build`."""

from typing import TypeVar

import keras

_Initializer = TypeVar("_Initializer")


def _clone(initializer: _Initializer) -> _Initializer:
    """Return a copy of an initializer that draws different numbers."""
    # One Keras initializer draws the same numbers at every call: the kernels of query, key and
    # value would start equal.
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


def _freeze_parts(layer: keras.layers.Layer) -> None:
    """Freeze the sub-layers that a frozen layer has created in `build`."""
    # Keras freezes only the sub-layers that exist when `trainable` is set.
    if not layer.trainable:
        # Set twice, because TensorFlow ignores an assignment of the same value.
        layer.trainable = True
        layer.trainable = False
