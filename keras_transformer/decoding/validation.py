"""Checks of options that several parts of decoding share."""

import math
from numbers import Integral, Real
from typing import Any


def check_model(model: Any, wanted: str, *, refused: type) -> None:
    """Refuse a model that decodes in another way, or not at all.

    Args:
        model: the model received.
        wanted: what it must be, in words.
        refused: the class of models that decode in another way.

    Raises:
        TypeError: such a model, or one without the methods of a step.
    """
    decodes = hasattr(model, "create_cache") and hasattr(model, "decode_step")
    if not decodes or isinstance(model, refused):
        raise TypeError(f"`model` must be {wanted}. Received: {type(model).__name__}.")


def check_positions(model: Any, num_positions: int) -> None:
    """Refuse more tokens than a model with learned positions knows.

    Args:
        model: the model received.
        num_positions: that it would have to read.

    Raises:
        ValueError: the model's `max_length` is lower.
    """
    limit = getattr(model, "max_length", None)
    if limit is not None and num_positions > limit:
        raise ValueError(
            "`max_length`, with the beginning, must be at most the positions that the model has learned. "
            f"Received: {num_positions} tokens, a model with max_length={limit}."
        )


def check_number(name: str, value: Any, *, whole: bool = False, above_zero: bool = False) -> None:
    """Refuse what is no finite number, or below zero.

    Args:
        name: of the argument.
        value: the value received.
        whole: whether it must be an integer.
        above_zero: whether zero is refused too.

    Raises:
        TypeError: a value that is not a number of this kind.
        ValueError: a value out of the range.
    """
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not is_number:
        wanted = "an integer" if whole else "a number"
        raise TypeError(f"`{name}` must be {wanted}. Received: {name}={value!r}.")
    if not 0 <= value < math.inf or (above_zero and not value):
        wanted = "above zero" if above_zero else "at least zero"
        raise ValueError(f"`{name}` must be finite and {wanted}. Received: {name}={value!r}.")
