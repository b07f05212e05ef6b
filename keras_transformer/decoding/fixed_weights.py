"""Weights that a loop reads once."""

import contextlib
from typing import Any

import keras


def fixed_weights(model: Any) -> contextlib.AbstractContextManager[Any]:
    """Let everything inside see the values that the weights have now.

    TensorFlow reads a variable anew in every round of a loop, a copy each time, since another
    operation might have changed it. Values that were read before the loop are read once.

    Args:
        model: whose `weights` are meant; one without any is left alone.

    Returns:
        A context manager.
    """
    weights = getattr(model, "weights", None)
    if keras.backend.backend() != "tensorflow" or not weights:
        return contextlib.nullcontext()
    import tensorflow as tf

    # Read now: what is no more than converted is still a variable.
    return keras.StatelessScope([(variable, tf.identity(variable.value)) for variable in weights])
