"""Weights that a loop reads once."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from keras_transformer.layers.prepared import kept_while_decoding


@contextlib.contextmanager
def fixed_weights(model: Any) -> Iterator[None]:
    """Let everything inside see the values that the weights have now, and what is made of them.

    Args:
        model: whose `weights` are meant; one without any is left alone.

    Yields:
        Nothing.
    """
    with _read_once(model), kept_while_decoding(), _without_gradients():
        yield


def _without_gradients() -> contextlib.AbstractContextManager[Any]:
    """Let torch keep nothing for a gradient that nobody will ask for."""
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    import torch

    return torch.no_grad()


def _read_once(model: Any) -> contextlib.AbstractContextManager[Any]:
    """Read the weights now.

    TensorFlow reads a variable anew in every round of a loop, a copy each time, since another
    operation might have changed it. Values that were read before the loop are read once.
    """
    weights = getattr(model, "weights", None)
    if keras.backend.backend() != "tensorflow" or not weights:
        return contextlib.nullcontext()
    import tensorflow as tf

    # Read now: what is no more than converted is still a variable.
    return keras.StatelessScope([(variable, tf.identity(variable.value)) for variable in weights])
