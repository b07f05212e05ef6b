"""Sinusoidal position encoding, "Attention Is All You Need", section 3.5."""

from typing import Any

import keras
from keras import ops

from keras_transformer.types import Shape, Tensor


def sinusoidal_position_encoding(
    length: Tensor | int,
    hidden_dim: int,
    *,
    start: Tensor | int = 0,
    max_wavelength: float = 10000.0,
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

    Returns:
        A float32 tensor `(t, d)`, sines and cosines interleaved.
    """
    num_waves = (hidden_dim + 1) // 2
    positions = ops.cast(ops.arange(length) + start, "float32")  # (t,)
    exponents = ops.arange(num_waves, dtype="float32") * (-2.0 / hidden_dim)
    rates = ops.power(ops.cast(max_wavelength, "float32"), exponents)  # (waves,)
    angles = positions[:, None] * rates[None, :]  # (t, waves)
    waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (t, waves, 2)
    return ops.reshape(waves, (-1, 2 * num_waves))[:, :hidden_dim]


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionEncoding(keras.layers.Layer):
    """Adds to each vector the sinusoidal mark of its position.

    It has no weights and no limit of length.

    Args:
        max_wavelength: the longest wave is `2 * pi` times as long.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: the position of the first vector, an integer.

    Returns:
        `(b, t, d)`, inputs and marks added in float32, in the layer's dtype.

    Raises:
        ValueError: a wavelength that is not above zero.

    Example:
        >>> tuple(PositionEncoding()(keras.ops.zeros((1, 5, 8))).shape)
        (1, 5, 8)
    """

    def __init__(self, *, max_wavelength: float = 10000.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not max_wavelength > 0:
            raise ValueError(
                f"`max_wavelength` must be above zero. Received: max_wavelength={max_wavelength}."
            )
        self.max_wavelength = max_wavelength
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0) -> Tensor:
        length, hidden_dim = ops.shape(inputs)[1], inputs.shape[-1]
        encoding = sinusoidal_position_encoding(
            length, hidden_dim, start=start, max_wavelength=self.max_wavelength
        )
        marked = ops.cast(inputs, "float32") + encoding[None, :, :]
        return ops.cast(marked, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength}
