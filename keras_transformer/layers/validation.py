"""Checks of arguments and shapes that several layers share."""

from numbers import Real

from keras_transformer.types import Shape


def check_positive(**sizes: int) -> None:
    """Refuse sizes that are not integers above zero.

    Args:
        **sizes: each argument's name and the value received.

    Raises:
        TypeError: a value that is not an integer.
        ValueError: a value that is not above zero.
    """
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"`{name}` must be an integer. Received: {name}={value!r}.")
        if value <= 0:
            raise ValueError(f"`{name}` must be above zero. Received: {name}={value}.")


def check_rates(**rates: float) -> None:
    """Refuse dropout rates outside [0, 1).

    Args:
        **rates: each argument's name and the value received.

    Raises:
        TypeError: a value that is not a number.
        ValueError: a rate below 0, or not below 1.
    """
    for name, value in rates.items():
        if not isinstance(value, Real):
            raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}.")
        if not 0 <= value < 1:
            raise ValueError(f"`{name}` must be at least 0 and below 1. Received: {name}={value}.")


def check_heads(num_heads: int, hidden_dim: int) -> None:
    """Refuse a number of heads that does not divide the width.

    Args:
        num_heads: the number of heads, `h`.
        hidden_dim: the width, `d`, that the heads share.

    Raises:
        ValueError: a remainder is left.
    """
    if hidden_dim % num_heads:
        raise ValueError(
            f"`num_heads` must divide `hidden_dim`. Received: num_heads={num_heads}, hidden_dim={hidden_dim}."
        )


def known_width(**shapes: Shape) -> int:
    """Read the width of an input, which kernels need to know.

    Args:
        **shapes: one argument's name and its shape.

    Returns:
        The size of the last axis.

    Raises:
        ValueError: that size is not known.
    """
    [(name, shape)] = shapes.items()
    width = shape[-1]
    if width is None:
        raise ValueError(f"The last axis of `{name}` must have a known size. Received: shape={tuple(shape)}.")
    return width
