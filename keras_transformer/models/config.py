"""The options of the models: their names, and what is refused before any weight is made."""

import difflib
from collections.abc import Collection
from typing import Any

import keras

from keras_transformer.arguments import (
    check_choice,
    check_groups,
    check_heads,
    check_positive,
    check_rates,
    get_activation,
)
from keras_transformer.layers import LearnedPositionEncoding, PositionEncoding
from keras_transformer.layers.normalization import NORMALIZATIONS
from keras_transformer.types import Shape, Tensor

_PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al., "Good for Misconceived Reasons", ACL 2021: Transformer-Tiny.
    "tiny": {
        "num_layers": 4,
        "hidden_dim": 128,
        "num_heads": 4,
        "intermediate_dim": 256,
        "dropout": 0.3,
    },
    "small": {
        "num_layers": 3,
        "hidden_dim": 256,
        "num_heads": 8,
        "intermediate_dim": 1024,
        "dropout": 0.1,
    },
    # "Attention Is All You Need", Table 3.
    "base": {
        "num_layers": 6,
        "hidden_dim": 512,
        "num_heads": 8,
        "intermediate_dim": 2048,
        "dropout": 0.1,
    },
    "big": {
        "num_layers": 6,
        "hidden_dim": 1024,
        "num_heads": 16,
        "intermediate_dim": 4096,
        "dropout": 0.3,
    },
}


def preset(name: str) -> dict[str, Any]:
    """Look up the constructor arguments of a preset.

    Args:
        name: `tiny`, `small`, `base` or `big`.

    Returns:
        A new dict of arguments for `Transformer`.

    Raises:
        ValueError: an unknown name.
    """
    if name not in _PRESETS:
        raise ValueError(f"`preset` must be one of {', '.join(_PRESETS)}. Received: preset={name!r}.")
    return dict(_PRESETS[name])


POSITIONS = ("sinusoidal", "learned", "rotary", "relative")


def check_positions(positions: str, max_length: int | None) -> None:
    """Refuse what is not known, and learned positions without a number of them.

    Args:
        positions: `sinusoidal`, as in the paper, `learned`, `rotary` or `relative`.
        max_length: the number of positions that are learned; None for the others.

    Raises:
        ValueError: an unknown name; a length where none is needed, or none where one is.
    """
    check_choice(POSITIONS, positions=positions)
    if (positions == "learned") != (max_length is not None):
        raise ValueError(
            "`max_length` must be given for positions='learned', and for no others. "
            f"Received: positions={positions!r}, max_length={max_length}."
        )
    if max_length is not None:
        check_positive(max_length=max_length)


def attention_positions(positions: str) -> str | None:
    """Give the option of the stacks.

    Args:
        positions: as for `check_positions`.

    Returns:
        `rotary` or `relative`, which the self-attention of each layer does; None
        for what is added to the embeddings.
    """
    return positions if positions in ("rotary", "relative") else None


def make_position_encoding(positions: str, max_length: int | None, dtype: Any) -> keras.layers.Layer:
    """Make the layer between embeddings and stacks.

    Args:
        positions: as for `check_positions`.
        max_length: the number of positions that are learned.
        dtype: the dtype or dtype policy; None for Keras's own.

    Returns:
        A layer that is called with vectors `(b, t, d)`, and `start` or `positions`.
    """
    if positions == "sinusoidal":
        return PositionEncoding(dtype=dtype, name="position_encoding")
    if positions == "learned":
        return LearnedPositionEncoding(max_length or 1, dtype=dtype, name="position_encoding")
    return NoPositionEncoding(dtype=dtype, name="position_encoding")


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoPositionEncoding(keras.layers.Layer):
    """Adds nothing: the attention of each layer knows the positions.

    Args:
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: the position of the first vector; ignored.
        positions: of each vector; ignored.

    Returns:
        The inputs.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0, positions: Tensor | None = None) -> Tensor:
        return inputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)


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
