"""Weights that a loop reads once."""

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import keras

from keras_transformer.types import Tensor

Value = TypeVar("Value")

_VALUES: contextvars.ContextVar[dict[int, Any] | None] = contextvars.ContextVar("values", default=None)


@contextlib.contextmanager
def kept_while_decoding() -> Iterator[None]:
    """Keep what `prepare` computes until the end.

    Whoever runs a loop asks for it, and makes the cache inside: what a loop computes for itself, no other
    may use.

    Yields:
        Nothing.
    """
    token = _VALUES.set({})
    try:
        yield
    finally:
        _VALUES.reset(token)


def prepare(owner: Any, compute: Callable[[], Any]) -> None:
    """Compute something that depends on weights alone, before a loop.

    Args:
        owner: a weight or a layer, of which this is made.
        compute: gives it.
    """
    values = _VALUES.get()
    if values is not None:
        values[id(owner)] = compute()


def prepared(owner: Any, compute: Callable[[], Value]) -> Value:
    """Give what was prepared, or else compute it.

    Args:
        owner: as for `prepare`.
        compute: likewise.

    Returns:
        What `compute` gives.
    """
    values = _VALUES.get() or {}
    return values[id(owner)] if id(owner) in values else compute()


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


def weights_now(weights: Iterable[keras.Variable]) -> list[tuple[keras.Variable, Tensor]]:
    """Return weights with the values that they have now, for a `keras.StatelessScope` around each step.

    TensorFlow reads a variable again in each round of a loop, a copy each time, since another operation might
    have changed it; torch keeps what a gradient would need.
    """
    return [(weight, weight_now(weight)) for weight in weights]


def weight_now(weight: keras.Variable) -> Tensor:
    """Return the value that a weight has now, as a tensor without a gradient on torch."""
    backend, value = keras.backend.backend(), weight.value
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.identity(value)  # what is no more than converted is still a variable
    return value.detach() if backend == "torch" else value
