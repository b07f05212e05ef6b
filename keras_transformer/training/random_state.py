"""The random state of a model: what its dropout layers draw next.

Keras leaves it out of a `.keras` file: a model that was read draws other masks than the one that was saved.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transformer.errors import InputError

# Keras names the variable of each `SeedGenerator` so.
_VARIABLE = "seed_generator_state"

RandomState = list[list[int]]


def random_state(model: keras.Model) -> RandomState:
    """Read what the model's seed generators stand at.

    Args:
        model: any Keras model.

    Returns:
        Two numbers for each generator, in the order of `model.variables`.
    """
    return [keras.ops.convert_to_numpy(variable).tolist() for variable in _variables(model)]


def set_random_state(model: keras.Model, state: RandomState) -> None:
    """Let a model draw what another one, of the same shape, would have drawn.

    Args:
        model: any Keras model.
        state: of `random_state`.

    Raises:
        InputError: the model has another number of seed generators, or a state is not two whole numbers.
    """
    variables = _variables(model)
    if len(variables) != len(state):
        raise InputError(
            f"The random state must be of the model's {len(variables)} seed generators. "
            f"Received: the states of {len(state)}."
        )
    checked = [_checked(value, variable) for variable, value in zip(variables, state, strict=True)]
    for variable, numbers in zip(variables, checked, strict=True):
        variable.assign(numbers)


def backend_random_state() -> list[int]:
    """Read what the backend's own generator stands at.

    Keras leaves dropout without a seed to torch, which draws from one generator for the whole process.

    Returns:
        Of torch, the generator of the CPU, as whole numbers of 64 bits; of the other backends,
        which have none, nothing.
    """
    if keras.backend.backend() != "torch":
        return []
    import torch

    return [int(number) for number in torch.get_rng_state().numpy().view("int64")]


def set_backend_random_state(state: list[int]) -> None:
    """Let the backend's own generator draw what it would have drawn.

    Args:
        state: of `backend_random_state`; if empty, or not on torch, the generator stays as it is.

    Raises:
        InputError: torch does not take the state.
    """
    if keras.backend.backend() != "torch" or not state:
        return
    import torch

    try:
        torch.set_rng_state(torch.from_numpy(np.array(state, "int64").view("uint8")))
    except (RuntimeError, ValueError, TypeError, OverflowError) as error:
        received = textwrap.shorten(str(state), 60)
        raise InputError(
            f"The random state must be of torch's generator. Received: {received}: {error}."
        ) from error


def _checked(value: Any, variable: keras.Variable) -> Sequence[int]:
    """Refuse what is not the state of a seed generator: a seed, and a count of draws."""
    numbers = value if isinstance(value, list) else []
    limits = np.iinfo(variable.dtype)
    if len(numbers) != 2 or not all(type(n) is int and limits.min <= n <= limits.max for n in numbers):
        raise InputError(
            f"The state of a seed generator must be two whole numbers of {limits.bits} bits. "
            f"Received: {value!r}."
        )
    return numbers


def _variables(model: keras.Model) -> list[Any]:
    return [variable for variable in model.variables if variable.name == _VARIABLE]
