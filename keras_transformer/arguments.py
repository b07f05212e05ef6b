"""Checks of values, as far as they are known: a graph knows them only when it runs."""

from numbers import Integral, Real
from typing import Any

import keras
import numpy as np
from keras import KerasTensor, ops

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


def known_values(tensor: Tensor) -> Any:
    """Read the values of a tensor where they are known.

    Args:
        tensor: of any backend.

    Returns:
        A NumPy array, or None while a graph is traced.
    """
    if isinstance(tensor, KerasTensor):
        return None
    try:
        return ops.convert_to_numpy(tensor)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None  # each backend refuses in its own way to read what is only traced


def as_position(start: Tensor | int) -> Tensor | int:
    """Read the position of a first vector, of whatever integer type.

    Args:
        start: an integer, or a scalar tensor of integers.

    Returns:
        A Python integer where it is known to be one, else an int32 tensor.

    Raises:
        ValueError: a number below 0.
    """
    if not isinstance(start, Integral):
        return ops.cast(start, "int32")
    if start < 0:
        raise ValueError(f"`start` must be at least 0. Received: start={start}.")
    return int(start)


def check_sequence(inputs: Tensor, positions: Tensor | None) -> None:
    """Refuse inputs and positions of which another axis, or a broadcast one, would be taken for time.

    Args:
        inputs: `(b, t, d)`.
        positions: integers `(b, t)` or `(1, t)`, or None.

    Raises:
        ValueError: another rank, or positions of another size, where it is known.
    """
    if len(inputs.shape) != 3:
        raise ValueError(f"`inputs` must have the shape (b, t, d). Received: shape={tuple(inputs.shape)}.")
    if positions is None:
        return
    shape, wanted = known_sizes(positions.shape), known_sizes(inputs.shape[:2])
    fits = (
        len(shape) == 2
        and shape[1] in (None, wanted[1] or shape[1])
        and shape[0] in (None, 1, wanted[0] or shape[0])
    )
    if not fits:
        raise ValueError(f"`positions` must have the shape (b, t) = {wanted}. Received: shape={shape}.")


def check_known_positions(positions: Tensor, limit: int | None) -> None:
    """Refuse positions that are out of range, where their values are known.

    Args:
        positions: integers `(b, t)`.
        limit: the first position that is too large; None if it is not known.

    Raises:
        ValueError: a position below 0, or not below the limit.
    """
    values = known_values(positions)
    if values is None or not values.size:
        return
    lowest, highest = values.min(), values.max()
    if lowest < 0 or (limit is not None and highest >= limit):
        raise ValueError(
            f"`positions` must be at least 0 and below {limit}. Received: from {lowest} to {highest}."
        )


def as_token_ids(token_ids: Tensor) -> Tensor:
    """Read whole numbers as token ids: Keras hands over floats where it makes the inputs of a model itself.

    It does so to rebuild a subclassed model from a file, and for a `Sequential` without an `Input`.

    Args:
        token_ids: of any dtype and rank.

    Returns:
        The integers; what is float32 or float64 as integers, with -1, which no vocabulary has, for a
        fraction that is only known when a graph runs. Anything else as it is.

    Raises:
        TypeError: fractions.
    """
    dtype = keras.backend.standardize_dtype(token_ids.dtype)
    if dtype not in ("float32", "float64"):  # half precision does not know large ids
        return token_ids
    values = known_values(token_ids)
    if values is not None and (values != np.floor(values)).any():
        raise TypeError(f"`token_ids` must be integers. Received: fractions, dtype={dtype}.")
    ids = ops.cast(token_ids, "int32")
    return ops.where(ops.equal(ops.cast(ids, dtype), token_ids), ids, -1)


def check_token_ids(token_ids: Tensor, vocabulary_size: int, name: str = "token_ids") -> None:
    """Refuse token ids that a vocabulary does not have, where their values are known.

    Args:
        token_ids: `(b, t)`, or of another rank.
        vocabulary_size: the number of ids, `v`.
        name: of the argument, for the message.

    Raises:
        TypeError: ids that are not integers.
        ValueError: an id below 0, or not below `v`.
    """
    if not keras.backend.is_int_dtype(token_ids.dtype):
        dtype = keras.backend.standardize_dtype(token_ids.dtype)
        raise TypeError(f"`{name}` must be integers. Received: dtype={dtype}.")
    values = known_values(token_ids)
    if values is None:
        return
    wrong = np.argwhere((values < 0) | (values >= vocabulary_size))
    if len(wrong):
        place = tuple(int(index) for index in wrong[0])
        raise ValueError(
            f"`{name}` must be at least 0 and below vocabulary_size={vocabulary_size}. "
            f"Received: {values[place]} at {place}."
        )


def as_tensor(inputs: Tensor) -> Tensor:
    """Turn an array into a tensor, and leave what is one, symbolic or not.

    Args:
        inputs: of any shape.

    Returns:
        A tensor of the backend.

    Raises:
        ValueError: a ragged tensor of TensorFlow.
    """
    if hasattr(inputs, "row_splits"):
        raise ValueError(
            "A dense tensor must be given: pad its rows, token ids with 0, as `to_tensor()` does. "
            f"Received: a ragged tensor of shape {tuple(inputs.shape)}."
        )
    return inputs if isinstance(inputs, KerasTensor) else ops.convert_to_tensor(inputs)


def as_floats(inputs: Tensor) -> Tensor:
    """Turn integers into floating-point numbers: a softmax or a sine is none.

    Args:
        inputs: a tensor or an array, of any shape.

    Returns:
        A tensor of the backend; of `keras.config.floatx()`, where it was of integers.
    """
    tensor = as_tensor(inputs)
    is_float = keras.backend.is_float_dtype(tensor.dtype)
    return tensor if is_float else ops.cast(tensor, keras.config.floatx())


def as_boolean(mask: Tensor, name: str) -> Tensor:
    """Read a mask of 0 and 1 in any dtype as booleans.

    Args:
        mask: a tensor, an array or nested lists, of booleans or of the numbers 0 and 1.
        name: what the caller calls it.

    Returns:
        A boolean tensor of the same shape.

    Raises:
        TypeError: neither booleans nor numbers.
        ValueError: numbers that are neither 0 nor 1, such as those of a mask that is
            added to the scores. While a graph is traced they are not known; such a
            mask then allows nothing, and never the opposite of what it says.
    """
    if not isinstance(mask, KerasTensor):
        dtype = str(getattr(mask, "dtype", ""))
        if any(kind in dtype for kind in ("str", "<U", "object", "complex")):
            raise TypeError(f"`{name}` must hold booleans, or the numbers 0 and 1. Received: dtype={dtype}.")
        mask = ops.convert_to_tensor(mask)
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return mask
    _check_zero_or_one(mask, name)
    return mask > 0


def _check_zero_or_one(mask: Tensor, name: str) -> None:
    """Refuse a mask of the kind that is added to the scores: read as booleans it says the opposite."""
    values = known_values(mask)
    if values is None:
        return
    wrong = values[(values != 0) & (values != 1)]
    if np.size(wrong):
        raise ValueError(
            f"`{name}` must hold 1 where a key may be attended to, and 0 elsewhere. Received: {wrong[0]}."
        )
