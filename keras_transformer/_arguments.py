"""Checks and conversions of arguments, shared by all packages.

Checks are made where a wrong value would otherwise cause a wrong result or an unclear error. Tensor values
are checked only in eager calls, because they are unknown while a graph is traced.
"""

import contextlib
import importlib
import itertools
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import KerasTensor, ops

from keras_transformer.errors import InputError
from keras_transformer.types import Pair, Shape, Tensor

# Directories without lines of a user: installed packages, those of Python, and this package.
_NO_USER = tuple(
    str(each) + os.sep
    for each in (Path(keras.__file__).parents[1], Path(os.__file__).parent, Path(__file__).parent)
)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line, since Python shows a warning once for each line."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NO_USER):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_number(
    *,
    at_least: float = 0,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
    **values: Any,
) -> None:
    """Raise TypeError for a value that is not a number, ValueError for one out of range."""
    # No backend has sizes beyond 32 bits.
    limit = (2**31 if whole else math.inf) if below is None else below
    for name, value in values.items():
        # In Python a boolean is an integer.
        is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
        if not is_number:
            kind = "an integer" if whole else "a number"
            raise TypeError(f"`{name}` must be {kind}. Received: {name}={value!r}.")
        is_high_enough = value >= at_least if above is None else value > above
        if not (is_high_enough and value < limit):
            lowest = f"at least {at_least}" if above is None else f"above {above or 'zero'}"
            is_named = limit < math.inf and (is_high_enough or below is not None)
            highest = f" and below {limit}" if is_named else "" if whole else " and finite"
            raise ValueError(f"`{name}` must be {lowest}{highest}. Received: {name}={value}.")


def check_positive(**sizes: Any) -> None:
    """Raise TypeError for a size that is not an integer, ValueError for one below 1."""
    check_number(above=0, whole=True, **sizes)


def check_rates(**rates: Any) -> None:
    """Raise TypeError for a rate that is not a number, ValueError for one outside [0, 1)."""
    check_number(below=1, **rates)


def check_flags(**flags: Any) -> None:
    """Raise TypeError for a flag that is neither True nor False; 1 and 0 are refused, too."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"`{name}` must be True or False. Received: {name}={value!r:.200}.")


def check_kind(*kinds: Any, **values: Any) -> None:
    """Raise TypeError for a value that is not an instance of one of the classes; None allows None."""
    for name, value in values.items():
        classes = tuple(type(None) if kind is None else kind for kind in kinds)
        # In Python a boolean is an integer.
        if not isinstance(value, classes) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(_kind_description(kind) for kind in kinds)
            # The repr of a class would not show the mistake of passing a class instead of an object.
            received = f"the class {value.__name__}" if isinstance(value, type) else f"{name}={value!r:.200}"
            raise TypeError(f"`{name}` must be {wanted}. Received: {received}.")


def _kind_description(kind: Any) -> str:
    names: dict[Any, str] = {
        str: "a string",
        bytes: "bytes",
        Integral: "an integer",
        Real: "a number",
        None: "None",
    }
    names |= {bool: "True or False", Callable: "a function", Sequence: "a list"}
    article = "an" if getattr(kind, "__name__", "")[:1] in "AEIOU" else "a"
    return names.get(kind) or f"{article} {kind.__name__}"


def check_several(kind: Any, **values: Any) -> None:
    """Raise TypeError unless each value is an iterable of instances of `kind`."""
    for name, several in values.items():
        if is_text(several) or isinstance(several, Mapping) or not isinstance(several, Iterable):
            received = f"{name}={several!r:.200}"
            raise TypeError(f"`{name}` must be several, such as a list. Received: {received}.")
        for number, value in enumerate(several):
            if not isinstance(value, kind):
                wanted = (
                    " or ".join(map(_kind_description, kind))
                    if isinstance(kind, tuple)
                    else _kind_description(kind)
                )
                raise TypeError(
                    f"`{name}` must hold {wanted} each. Received: {name}[{number}]={value!r:.200}."
                )


def check_choice(choices: tuple[object, ...], **options: object) -> None:
    """Raise ValueError for an option that is not one of the choices."""
    for name, value in options.items():
        # By type first: in Python True equals 1, and an array has no truth value.
        if not isinstance(value, tuple(map(type, choices))) or value not in choices:
            allowed = ", ".join(map(repr, choices))
            raise ValueError(f"`{name}` must be one of {allowed}. Received: {name}={value!r}.")


def check_divides(**sizes: int | None) -> None:
    """Raise ValueError unless the first of two sizes divides the second; None passes."""
    (name, size), (total_name, total) = sizes.items()
    if size and total and total % size:
        raise ValueError(
            f"`{name}` must divide `{total_name}`. Received: {name}={size}, {total_name}={total}."
        )


def check_memory(num_bytes: int, **received: object) -> None:
    """Raise InputError if the machine has less memory than `num_bytes`, a lower bound of what is needed."""
    memory = math.inf  # unknown on Windows; a container may have a lower limit
    with contextlib.suppress(AttributeError, OSError, ValueError):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    if num_bytes > memory:
        sizes = ", ".join(f"{name}={value}" for name, value in received.items())
        needed = f"At least {min(num_bytes, 10**30):,} bytes of memory would be needed"
        raise InputError(f"{needed}, and the machine has {memory:,}. Received: {sizes}.")


def known_sizes(shape: Shape) -> Shape:
    """Return the sizes of a shape, None where they are unknown."""
    # JAX has symbols for unknown sizes.
    return tuple(size if isinstance(size, int) else None for size in shape)


def known_width(**shapes: Shape) -> int:
    """Return the last size of a shape; raise ValueError if it is unknown."""
    [(name, shape)] = shapes.items()
    width = shape[-1]
    if width is None:
        raise ValueError(f"The last axis of `{name}` must have a known size. Received: shape={tuple(shape)}.")
    return width


def known_values(tensor: Tensor) -> npt.NDArray[Any] | None:
    """Return the values of a tensor as an array, or None while a graph is traced."""
    if isinstance(tensor, KerasTensor):
        return None
    try:
        values = ops.convert_to_numpy(tensor)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        # Each backend raises another error for a traced tensor.
        return None
    # An unknown size in an export from JAX is a symbol, an object for NumPy.
    return None if values.dtype == object else values


def check_width(width: int, **shapes: Shape) -> None:
    """Raise ValueError for inputs of another width than the weights."""
    for name, shape in shapes.items():
        if isinstance(shape[-1], int) and shape[-1] != width:
            raise ValueError(
                f"The last axis of `{name}` must have the size of the layer's weights, {width}. "
                f"Received: shape={tuple(shape)}."
            )


def check_vectors(shape: Shape) -> None:
    """Raise ValueError for a shape without three axes, such as token ids `(b, t)`."""
    if len(shape) != 3:
        raise ValueError(
            "`inputs` must be vectors, (b, t, d); token ids go through an embedding first, images through "
            "`keras.layers.Reshape`, sequences of sequences through `keras.layers.TimeDistributed`. "
            f"Received: shape={tuple(shape)}."
        )


def check_finite(origin: object, weights: Iterable[Tensor]) -> None:
    """Raise InputError if weights from a file hold NaN or infinity, which make outputs empty."""
    for weight in weights:
        if keras.backend.is_float_dtype(weight.dtype) and not bool(ops.all(ops.isfinite(weight))):
            name = getattr(weight, "path", weight.name)
            raise InputError(f"{origin} must hold finite weights. Received: NaN or infinity in {name}.")


def as_position(position: Tensor | int, name: str = "start") -> Tensor | int:
    """Return a position as a Python integer if its value is known, else as an int32 tensor."""
    values = position if isinstance(position, Integral) else known_values(position)
    if values is None:
        return ops.cast(position, "int32")
    given: dict[str, Any] = {name: np.asarray(values).item()}
    check_number(whole=True, **given)
    return int(given[name])


def check_token_ids(token_ids: Tensor, vocabulary_size: int, name: str = "token_ids") -> None:
    """Raise TypeError for token ids that are not integers, ValueError for ids outside the vocabulary."""
    if not keras.backend.is_int_dtype(token_ids.dtype):
        dtype = keras.backend.standardize_dtype(token_ids.dtype)
        raise TypeError(f"`{name}` must be integers. Received: dtype={dtype}.")
    values = known_values(token_ids)
    if values is None:
        return
    wrong = np.argwhere((values < 0) | (values >= vocabulary_size))
    if len(wrong):
        index = tuple(int(number) for number in wrong[0])
        raise ValueError(
            f"`{name}` must be at least 0 and below vocabulary_size={vocabulary_size}. "
            f"Received: {values[index]} at {index}."
        )


def as_integers(token_ids: Tensor, name: str = "token_ids") -> Tensor:
    """Return whole floats as integers; for fractions raise TypeError, or return -1 in a traced graph."""
    # Keras passes floats when it makes the inputs itself: for a subclassed model loaded from a file, and for
    # a `Sequential` without an `Input`. Half precision cannot hold large ids and is refused.
    dtype = keras.backend.standardize_dtype(token_ids.dtype)
    if dtype not in ("float32", "float64"):
        return token_ids
    values = known_values(token_ids)
    if values is not None and (values != np.floor(values)).any():
        raise TypeError(f"`{name}` must be integers. Received: fractions, dtype={dtype}.")
    ids = ops.cast(token_ids, "int32")
    return ops.where(ops.equal(ops.cast(ids, dtype), token_ids), ids, -1)


def as_tensor(inputs: Tensor) -> Tensor:
    """Return an array as a backend tensor; raise ValueError for a ragged TensorFlow tensor."""
    if hasattr(inputs, "row_splits"):
        raise ValueError(
            "A dense tensor must be given: pad its rows, token ids with 0, as `to_tensor()` does. "
            f"Received: a ragged tensor of shape {tuple(inputs.shape)}."
        )
    return inputs if isinstance(inputs, KerasTensor) else ops.convert_to_tensor(inputs)


def as_floats(inputs: Tensor) -> Tensor:
    """Return a tensor of floats; integers become `keras.config.floatx()`."""
    # Softmax and sine need floats.
    tensor = as_tensor(inputs)
    is_float = keras.backend.is_float_dtype(tensor.dtype)
    return tensor if is_float else ops.cast(tensor, keras.config.floatx())


def as_precise(tensor: Tensor) -> Tensor:
    """Return a tensor of float64 as it is, and any other in float32."""
    # By name: Keras on torch promotes float64 and float32 to float32.
    is_double = keras.backend.standardize_dtype(tensor.dtype) == "float64"
    return tensor if is_double else ops.cast(tensor, "float32")


def as_boolean(mask: Tensor, name: str) -> Tensor:
    """Return a mask of booleans or 0 and 1 as booleans; raise ValueError or TypeError for others."""
    if not isinstance(mask, KerasTensor):
        dtype = str(getattr(mask, "dtype", ""))
        if any(kind in dtype for kind in ("str", "<U", "object", "complex")):
            raise TypeError(f"`{name}` must hold booleans, or the numbers 0 and 1. Received: dtype={dtype}.")
        mask = ops.convert_to_tensor(mask)
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return mask
    values = known_values(mask)
    wrong = np.array([]) if values is None else values[(values != 0) & (values != 1)]
    if wrong.size:
        raise ValueError(
            f"`{name}` must hold 1 where a key may be attended to, and 0 elsewhere. Received: {wrong[0]}."
        )
    # An additive mask is 0 for visible keys and negative for hidden ones. If its values are unknown, `> 0`
    # hides every key, rather than inverting the mask; `MultiHeadAttention` then returns NaN.
    return mask > 0


def is_text(value: object) -> bool:
    """Return whether a value is a single text: a string, bytes, or a 0-D array or tensor."""
    shape = getattr(value, "shape", None)
    return isinstance(value, str | bytes) or (shape is not None and len(shape) == 0)


def as_strings(**texts: Any) -> list[str]:
    """Return the texts of an iterable, array, tensor or dataset as a list; raise TypeError for others."""
    [(name, given)] = texts.items()
    for each in given if isinstance(given, list | tuple) else [given]:
        if hasattr(each, "graph"):  # only a tensor without a value has one
            wanted = "strings, not tensors of a graph: in a graph, call the signatures of an export"
            raise TypeError(f"`{name}` must be {wanted}. Received: {each!r:.200}.")
    if is_text(given) or isinstance(given, Mapping) or not isinstance(given, Iterable):
        wanted = "several strings, such as a list"
        raise TypeError(f"`{name}` must be {wanted}. Received: {name}={given!r:.200}.")
    values: Iterable[Any] = (value.numpy() if hasattr(value, "numpy") else value for value in given)
    if hasattr(given, "element_spec"):  # a `tf.data` dataset of texts or of batches of texts
        values = itertools.chain.from_iterable(
            value.tolist() if getattr(value, "ndim", 0) == 1 else [value] for value in values
        )
    # A string may be a 0-D array.
    values = (value.item() if getattr(value, "shape", None) == () else value for value in values)
    strings = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
    for row, text in enumerate(strings):
        if not isinstance(text, str):
            raise TypeError(f"`{name}` must hold strings. Received: {name}[{row}]={text!r:.200}.")
    return strings


def is_pair(pair: object) -> bool:
    """Return whether a value is a pair of texts; an empty table cell, NaN, is not a text."""
    texts = pair if isinstance(pair, tuple | list) else ()
    return len(texts) == 2 and all(isinstance(text, str | bytes) for text in texts)


def as_pairs(**pairs: Iterable[Any]) -> list[Pair]:
    """Return pairs of texts as a list; raise TypeError for other values."""
    [(name, given)] = pairs.items()
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"`{name}` must be pairs of texts, such as a list. Received: {name}={given!r:.200}.")
    several = list(given)
    for number, pair in enumerate(several):
        if not is_pair(pair):
            raise TypeError(
                f"Each pair must be a tuple or list of two strings. Received: {name}[{number}]={pair!r:.200}."
            )
    return several


def as_labels(**labels: Iterable[Any]) -> tuple[str, ...]:
    """Return class names; raise TypeError for other values, ValueError for fewer than two or duplicates."""
    [name], names = labels, as_strings(**labels)
    if len(names) < 2:
        raise ValueError(f"`{name}` must hold at least two names. Received: {name}={names}.")
    seen: set[str] = set()
    for label in names:
        if not label.strip() or label in seen:
            fault = f"{label!r} twice" if label in seen else repr(label)
            raise ValueError(f"`{name}` must hold different names, none empty. Received: {fault}.")
        seen.add(label)
    return tuple(names)


def import_extra(name: str, model: str, extra: str) -> ModuleType:
    """Import an optional package; raise InputError that names the extra to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = f'{model} needs the package {name}; in the clone: pip install ".[{extra}]".'
        raise InputError(message) from error
