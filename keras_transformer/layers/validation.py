"""Checks of arguments and shapes that several layers share."""

from numbers import Integral, Real
from typing import Any

import keras

from keras_transformer.types import Shape, Tensor


def check_positive(**sizes: int) -> None:
    """Refuse sizes that are not integers above zero.

    Args:
        **sizes: each argument's name and the value received.

    Raises:
        TypeError: a value that is not an integer.
        ValueError: a value that is not above zero.
    """
    for name, value in sizes.items():
        if not isinstance(value, Integral) or isinstance(value, bool):
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


def check_groups(num_key_value_heads: int | None, num_heads: int) -> None:
    """Refuse groups of heads that are not of one size.

    Args:
        num_key_value_heads: the number of groups; None for as many as heads.
        num_heads: the number of heads, `h`.

    Raises:
        ValueError: a remainder is left.
    """
    if num_heads % (num_key_value_heads or num_heads):
        raise ValueError(
            "`num_key_value_heads` must divide `num_heads`. Received: "
            f"num_key_value_heads={num_key_value_heads}, num_heads={num_heads}."
        )


def check_belong_together(query: Shape, value: Shape, key: Shape) -> None:
    """Refuse inputs of attention that would fit each other only by broadcasting.

    Args:
        query: the shape `(b, t, d)`.
        value: the shape `(b, s, d)`.
        key: the shape `(b, s, d)`.

    Raises:
        ValueError: different batch sizes, or another number of keys than of values.
    """
    query, value, key = (known_sizes(shape) for shape in (query, value, key))
    batches, lengths = {query[0], value[0], key[0]} - {None}, {value[1], key[1]} - {None}
    if len(batches) > 1 or len(lengths) > 1:
        raise ValueError(
            "`query`, `value` and `key` must have one batch size, and `value` and `key` one length. "
            f"Received: query of shape {query}, value of shape {value}, key of shape {key}."
        )


def check_one_rank(query: Shape, value: Shape, key: Shape) -> None:
    """Refuse inputs of attention of which one is no sequence: a mask that stands where it must not.

    Args:
        query: the shape `(..., t, d)`.
        value: the shape `(..., s, d)`.
        key: the shape `(..., s, d)`.

    Raises:
        ValueError: different ranks.
    """
    if not len(query) == len(value) == len(key):
        raise ValueError(
            "`query`, `value` and `key` must have one rank; a mask is an `attention_mask` or a "
            f"`padding_mask`. Received: query of shape {tuple(query)}, value of shape {tuple(value)}, "
            f"key of shape {tuple(key)}."
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


def check_width(width: int, **inputs: Tensor) -> None:
    """Refuse inputs of another width than the weights, in which a reshape or a product would fail.

    Args:
        width: of the weights.
        **inputs: each argument's name and the tensor received, of any rank; lists have no shape to check.

    Raises:
        ValueError: another size of the last axis, where it is known.
    """
    for name, tensor in inputs.items():
        size = tensor.shape[-1] if hasattr(tensor, "shape") else None
        if isinstance(size, int) and size != width:
            raise ValueError(
                f"The last axis of `{name}` must have the size of the layer's weights, {width}. "
                f"Received: shape={tuple(tensor.shape)}."
            )


def check_alike(**tensors: Tensor) -> None:
    """Refuse two tensors that would fit each other only by broadcasting.

    Args:
        **tensors: each argument's name and the tensor received; lists have no shape to check.

    Raises:
        ValueError: different ranks, or different sizes of an axis, where both are known.
    """
    shapes = {name: known_sizes(tensor.shape) for name, tensor in tensors.items() if hasattr(tensor, "shape")}
    alike = len({len(shape) for shape in shapes.values()}) <= 1
    if not alike or any(len({*sizes} - {None}) > 1 for sizes in zip(*shapes.values(), strict=True)):
        received = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"{' and '.join(f'`{name}`' for name in shapes)} must have one shape. Received: {received}."
        )


def check_vectors(inputs: Any) -> None:
    """Refuse token ids where vectors are wanted, and examples that would attend to each other as a sequence.

    Args:
        inputs: a tensor or an array; what has no dtype is left to Keras.

    Raises:
        TypeError: integers of rank 2 or below.
        ValueError: other numbers of rank 2 or below.
    """
    dtype = getattr(inputs, "dtype", None)
    if dtype is None or len(inputs.shape) > 2:
        return
    if not keras.backend.is_int_dtype(dtype):
        raise ValueError(f"`inputs` must have the shape (b, t, d). Received: shape={tuple(inputs.shape)}.")
    raise TypeError(
        "`inputs` must be vectors of floating-point numbers, (b, t, d); token ids go through an embedding "
        f"first. Received: dtype {keras.backend.standardize_dtype(dtype)}, shape {tuple(inputs.shape)}."
    )


def check_choice(choices: tuple[Any, ...], **options: Any) -> None:
    """Refuse an option that is none of the choices.

    Args:
        choices: what is allowed.
        **options: each argument's name and the value received.

    Raises:
        ValueError: another value.
    """
    for name, value in options.items():
        if value not in choices:
            raise ValueError(
                f"`{name}` must be one of {', '.join(map(repr, choices))}. Received: {name}={value!r}."
            )


def get_activation(activation: Any) -> Any:
    """Look up an activation function.

    Args:
        activation: what `keras.activations.get` takes: a name, a function, None.

    Returns:
        The function.

    Raises:
        ValueError: an unknown name.
    """
    try:
        return keras.activations.get(activation)
    except ValueError as error:
        raise ValueError(
            f"`activation` must be a name that Keras knows, or a function. "
            f"Received: activation={activation!r}."
        ) from error


def freeze_parts(layer: keras.layers.Layer) -> None:
    """Freeze what a layer made in `build`, if the layer was frozen before.

    Args:
        layer: whose `trainable` Keras has passed on only to the parts that it had.
    """
    if not layer.trainable:
        layer.trainable = True  # TensorFlow does nothing where a value stays the same
        layer.trainable = False


def known_sizes(shape: Shape) -> Shape:
    """Read what is known of a shape.

    Args:
        shape: of a tensor.

    Returns:
        The sizes, None where they are not known: JAX has symbols there while it infers shapes.
    """
    return tuple(size if isinstance(size, int) else None for size in shape)
