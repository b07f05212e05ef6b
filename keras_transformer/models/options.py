"""The options of the models: their names, and what is refused before any weight is made."""

import difflib
from collections.abc import Collection
from typing import Any

from keras_transformer.layers.normalization import NORMALIZATIONS
from keras_transformer.layers.validation import (
    check_choice,
    check_groups,
    check_heads,
    check_positive,
    check_rates,
    get_activation,
)
from keras_transformer.models.positions import attention_positions, check_positions

BLOCK_OPTIONS = (
    "num_heads",
    "intermediate_dim",
    "activation",
    "gated",
    "dropout",
    "attention_dropout",
    "intermediate_dropout",
    "norm_first",
    "normalization",
    "layer_norm_epsilon",
    "num_key_value_heads",
)
"""The arguments that every model hands to its stacks as they are; a new option of `Block` goes here."""


_OF_KERAS = {"name", "dtype", "trainable"}


def constructor_arguments(names: dict[str, Any]) -> dict[str, Any]:
    """Collect a constructor's arguments, so that each is written down only once.

    Args:
        names: `locals()`, in the first line of the constructor.

    Returns:
        Each argument's name and value, without `self` and `kwargs`.

    Raises:
        TypeError: `kwargs` has more than a Keras model takes, which Keras would pass over.
    """
    unknown = names.get("kwargs", {}).keys() - _OF_KERAS
    if unknown:
        received = {name: names["kwargs"][name] for name in sorted(unknown)}
        known = [name for name in names if name not in ("self", "kwargs", "__class__")]
        like = difflib.get_close_matches(min(unknown), known, 1)
        hint = f" Did you mean `{like[0]}`?" if like else ""
        raise TypeError(
            f"{type(names['self']).__name__} must be given arguments of its own.{hint} Received: {received}."
        )
    return {name: value for name, value in names.items() if name not in ("self", "kwargs", "__class__")}


def block_options(config: dict[str, Any]) -> dict[str, Any]:
    """Choose the options of the stacks.

    Args:
        config: each constructor argument's name and value.

    Returns:
        The ones that are arguments of `Block`.
    """
    options = {name: config[name] for name in BLOCK_OPTIONS}
    return {**options, "positions": attention_positions(config["positions"])}


def check_options(config: dict[str, Any], optional: Collection[str] = ()) -> None:
    """Refuse sizes, rates and heads that no model can have.

    Args:
        config: each constructor argument's name and value.
        optional: the names of sizes that may be None.

    Raises:
        TypeError: a size that is not an integer, a rate that is not a number.
        ValueError: a size not above zero, a rate outside [0, 1), heads that
            do not divide the width, a name that is not known.
    """
    for name, value in config.items():
        if name.endswith(("_size", "_dim", "_layers", "_heads", "_outputs")):
            if value is not None or name not in (*optional, "num_key_value_heads"):
                check_positive(**{name: value})
        elif name.endswith("dropout"):
            check_rates(**{name: value})
    check_heads(config["num_heads"], config["hidden_dim"])
    check_groups(config["num_key_value_heads"], config["num_heads"])
    check_choice(NORMALIZATIONS, normalization=config["normalization"])
    get_activation(config["activation"])
    check_positions(config["positions"], config["max_length"])
    if config["positions"] == "rotary" and config["hidden_dim"] // config["num_heads"] % 2:
        raise ValueError(
            "`hidden_dim / num_heads` must be even for positions='rotary'. "
            f"Received: hidden_dim={config['hidden_dim']}, num_heads={config['num_heads']}."
        )


def check_exactly_one(**options: int | None) -> None:
    """Refuse two ways to say the same thing, and none.

    Args:
        **options: each argument's name and the value received.

    Raises:
        ValueError: not exactly one of them is given.
    """
    if sum(value is not None for value in options.values()) != 1:
        names = " and ".join(f"`{name}`" for name in options)
        received = ", ".join(f"{name}={value}" for name, value in options.items())
        raise ValueError(f"Exactly one of {names} must be given. Received: {received}.")
