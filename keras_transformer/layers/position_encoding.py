"""The layer that adds sinusoids, "Attention Is All You Need", section 3.5."""

import math
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer.arguments import (
    as_position,
    as_tensor,
    check_choice,
    check_sequence,
    known_sizes,
)
from keras_transformer.backend import has_fast_doubles
from keras_transformer.types import Shape, Tensor

LAYOUTS = ("interleaved", "concatenated")


def sinusoidal_position_encoding(
    length: Tensor | int,
    hidden_dim: int,
    *,
    start: Tensor | int = 0,
    max_wavelength: float = 10000.0,
    layout: str = "interleaved",
) -> Tensor:
    """Compute the sine and cosine waves that mark positions.

    `PE(p, 2i) = sin(p / w^(2i/d))` and `PE(p, 2i+1) = cos(p / w^(2i/d))`, with
    the maximal wavelength `w`. Always in float32: in half precision
    neighbouring positions would become equal.

    Args:
        length: the number of positions, `t`.
        hidden_dim: the width, `d`; odd widths end with a sine.
        start: the first position; above zero when decoding step by step.
        max_wavelength: the longest wave is `2 * pi` times as long.
        layout: `interleaved`, as in the paper: sine, cosine, sine, ...; or
            `concatenated`, as in its first implementation: all sines, then all cosines.

    Returns:
        A float32 tensor `(t, d)`.

    Raises:
        ValueError: an unknown layout.
    """
    check_choice(LAYOUTS, layout=layout)
    num_waves = (hidden_dim + 1) // 2
    rates = np.power(max_wavelength, np.arange(num_waves) * (-2.0 / hidden_dim), dtype="float64")  # (waves,)
    angles = position_angles(ops.arange(length, dtype="int32") + as_position(start), rates)  # (t, waves)
    if layout == "concatenated":
        return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)[:, :hidden_dim]
    waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (t, waves, 2)
    return ops.reshape(waves, (-1, 2 * num_waves))[:, :hidden_dim]


def position_angles(positions: Tensor, rates: npt.NDArray[np.float64]) -> Tensor:
    """Multiply positions with rates, and leave full turns away.

    In float32 `sin(p * rate)` loses a digit with every digit of `p`. Where there is no float64,
    as with JAX and on a TPU, the rates are measured in turns and split, like the positions, into parts
    short enough for each product to be exact, and only what is left of a turn is kept.

    Args:
        positions: integers `(t,)`, at least 0 and below 2^24.
        rates: float64 `(waves,)`, radians from one position to the next.

    Returns:
        float32 angles `(t, waves)`, each an error of about 1e-6 from the true one, modulo `2 * pi`.
    """
    positions = ops.cast(positions, "int32")[:, None]
    if has_fast_doubles():
        angles = ops.cast(positions, "float64") * rates
        return ops.cast(angles - ops.floor(angles / (2 * math.pi)) * (2 * math.pi), "float32")
    high = ops.cast(positions // _BLOCK, "float32")
    low = ops.cast(positions % _BLOCK, "float32")
    turns = rates / (2 * math.pi) % 1.0
    left = _fraction_of_product(low, turns) + _fraction_of_product(high, turns * _BLOCK % 1.0)
    return (left - ops.floor(left)) * (2 * math.pi)


_BLOCK = 4096  # 12 bits: two such numbers have an exact product in float32


def _fraction_of_product(factor: Tensor, turns: npt.NDArray[np.float64]) -> Tensor:
    """Compute the fractional part of `factor * turns`, for a factor of 12 bits, in parts of 12 bits."""
    total, rest = 0.0, turns
    for scale in (_BLOCK, _BLOCK**2, _BLOCK**3):
        part = np.floor(rest * scale) / scale
        product = factor * ops.convert_to_tensor(part.astype("float32"))
        total, rest = total + (product - ops.floor(product)), rest - part
    return total


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionEncoding(keras.layers.Layer):
    """Adds to each vector the sinusoidal mark of its position.

    It has no weights and no limit of length.

    Args:
        max_wavelength: the longest wave is `2 * pi` times as long.
        layout: `interleaved` or `concatenated`; see `sinusoidal_position_encoding`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: the position of the first vector, an integer.
        positions: integers `(b, t)`, at least 0 and below `t`, where they do not
            count up from `start`, as in packed rows; see `segment_positions`.

    Returns:
        `(b, t, d)`, inputs and marks added in float32, in the layer's dtype. While a graph is traced, one of
        `positions` that is out of range gives NaN.

    Raises:
        ValueError: a wavelength that is not above zero, an unknown layout, or a position out of range.

    Example:
        >>> tuple(PositionEncoding()(keras.ops.zeros((1, 5, 8))).shape)
        (1, 5, 8)
    """

    def __init__(
        self, *, max_wavelength: float = 10000.0, layout: str = "interleaved", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not max_wavelength > 0:
            raise ValueError(
                f"`max_wavelength` must be above zero. Received: max_wavelength={max_wavelength}."
            )
        check_choice(LAYOUTS, layout=layout)
        self.max_wavelength = max_wavelength
        self.layout = layout
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0, positions: Tensor | None = None) -> Tensor:
        positions = None if positions is None else as_tensor(positions)
        check_sequence(inputs, positions, *known_sizes(inputs.shape[1:2]))
        length, hidden_dim = ops.shape(inputs)[1], inputs.shape[-1]
        encoding = sinusoidal_position_encoding(
            length,
            hidden_dim,
            start=start if positions is None else 0,
            max_wavelength=self.max_wavelength,
            layout=self.layout,
        )
        marks = encoding[None, :, :]
        if positions is not None:
            is_known = ops.logical_and(positions >= 0, positions < length)
            marks = ops.take(encoding, ops.clip(positions, 0, length - 1), axis=0)  # (b, t, d)
            marks = ops.where(ops.expand_dims(is_known, -1), marks, float("nan"))
        marked = ops.cast(inputs, "float32") + marks
        return ops.cast(marked, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength, "layout": self.layout}
