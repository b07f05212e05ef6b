"""What a layer does for the parts that it makes in `build`."""

from typing import TypeVar

import keras

_Initializer = TypeVar("_Initializer")


def _clone(initializer: _Initializer) -> _Initializer:
    """Return an initializer of the same kind that draws other numbers."""
    # A Keras initializer draws the same numbers at every call: queries, keys and values would start alike.
    return initializer.clone() if isinstance(initializer, keras.initializers.Initializer) else initializer


def _freeze_parts(layer: keras.layers.Layer) -> None:
    """Freeze the parts that a frozen layer has made in `build`."""
    # Keras froze only the parts that a layer had before `build`.
    if not layer.trainable:
        # TensorFlow does nothing where a value stays the same.
        layer.trainable = True
        layer.trainable = False
