"""Rotary positions: queries and keys turned by their position, Su et al. 2021 (RoFormer)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import as_floats, as_position
from keras_transformer.layers.position_encoding import position_angles
from keras_transformer.types import Shape, Tensor


def rotary_embedding(heads: Tensor, *, start: Tensor | int = 0, max_wavelength: float = 10000.0) -> Tensor:
    """Turn each pair of features by an angle that grows with the position.

    Afterwards the product of a query and a key depends on how far apart they
    are, and no longer on where they are (section 3.2.2, equation 14). Feature `i`
    is paired with feature `i + k/2`.

    Args:
        heads: queries or keys, `(b, t, h, k)`; `k` is even.
        start: the position of the first vector.
        max_wavelength: the slowest pair needs about `2 * pi` times as many positions for a turn.

    Returns:
        `(b, t, h, k)`, turned in float32, in the dtype of `heads`.

    Raises:
        ValueError: an odd width.
    """
    heads = as_floats(heads)
    half, rest = divmod(heads.shape[-1], 2)
    if rest:
        raise ValueError(f"`key_dim` must be even for rotary positions. Received: key_dim={heads.shape[-1]}.")
    rates = np.power(max_wavelength, np.arange(half) * (-1.0 / half), dtype="float64")
    positions = ops.arange(ops.shape(heads)[1], dtype="int32") + as_position(start)
    angles = position_angles(positions, rates)[None, :, None, :]  # (1, t, 1, k/2)
    sine, cosine = ops.sin(angles), ops.cos(angles)
    signed_sine, cosine = ops.concatenate([-sine, sine], axis=-1), ops.concatenate([cosine, cosine], axis=-1)
    x = ops.cast(heads, "float32")
    first, second = ops.split(x, 2, axis=-1)  # not slices: TensorFlow pads and adds the gradient of each
    turned = x * cosine + ops.concatenate([second, first], axis=-1) * signed_sine
    return ops.cast(turned, heads.dtype)


@keras.saving.register_keras_serializable(package="keras_transformer")
class RotaryEmbedding(keras.layers.Layer):
    """Turns queries and keys by their positions; see `rotary_embedding`.

    `MultiHeadAttention(positions="rotary")` does this to its own queries and
    keys. The layer is for attention that is written by hand.

    Args:
        max_wavelength: the slowest pair needs about `2 * pi` times as many positions for a turn.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: queries or keys, `(b, t, h, k)`; `k` is even.
        start: the position of the first vector, an integer.

    Returns:
        `(b, t, h, k)`.

    Raises:
        ValueError: a wavelength that is not above zero, an odd width.

    Example:
        >>> tuple(RotaryEmbedding()(keras.ops.zeros((1, 5, 2, 8))).shape)
        (1, 5, 2, 8)
    """

    def __init__(self, *, max_wavelength: float = 10000.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not max_wavelength > 0:
            raise ValueError(
                f"`max_wavelength` must be above zero. Received: max_wavelength={max_wavelength}."
            )
        self.max_wavelength = max_wavelength

    def call(self, inputs: Tensor, start: Tensor | int = 0) -> Tensor:
        return rotary_embedding(inputs, start=start, max_wavelength=self.max_wavelength)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength}
