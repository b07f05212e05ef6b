"""Rotary positions: queries and keys turned by their position, Su et al. 2021 (RoFormer)."""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.arguments import as_floats, as_position, check_number
from keras_transformer.backend.formulas import position_angles
from keras_transformer.types import Shape, Tensor


class _Rotation(NamedTuple):
    """The turns of some positions, for all heads and layers alike."""

    signed_sine: Tensor
    """float32 `(t, 1, k)`: minus the sine for the first half of the features."""
    cosine: Tensor
    """float32 `(t, 1, k)`."""

    @classmethod
    def of(
        cls, length: Tensor | int, width: int, start: Tensor | int = 0, max_wavelength: float = 10000.0
    ) -> "_Rotation":
        """Compute the turns of `length` positions from `start` on, for heads of a width `k`."""
        half, rest = divmod(width, 2)
        if rest:
            raise ValueError(f"`key_dim` must be even for rotary positions. Received: key_dim={width}.")
        rates = np.power(max_wavelength, np.arange(half) * (-1.0 / half), dtype="float64")
        # (k/2,) -> (t, k/2) -> (t, 1, k/2), alike for all heads
        angles = position_angles(as_position(start), length, rates)[:, None, :]
        sine, cosine = ops.sin(angles), ops.cos(angles)
        return cls(ops.concatenate([-sine, sine], axis=-1), ops.concatenate([cosine, cosine], axis=-1))

    def __call__(self, heads: Tensor) -> Tensor:
        """Turn queries or keys `(..., t, h, k)`, in float32."""
        x = ops.cast(heads, "float32")
        # No slices: TensorFlow pads and adds the gradient of each.
        first, second = ops.split(x, 2, axis=-1)
        turned = x * self.cosine + ops.concatenate([second, first], axis=-1) * self.signed_sine
        return ops.cast(turned, heads.dtype)


@keras.saving.register_keras_serializable(package="keras_transformer")
class RotaryEmbedding(keras.layers.Layer):
    """Turns each pair of features of queries and keys by an angle that grows with the position.

    Afterwards the product of a query and a key depends on how far apart they are, and no longer on where they
    are (section 3.2.2, equation 14). Feature `i` is paired with feature `i + k/2`.
    `MultiHeadAttention(positions="rotary")` does this to its own queries and keys; the layer is for attention
    that is written by hand.

    Args:
        max_wavelength: the slowest pair needs about `2 * pi` times as many positions for a turn.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: queries or keys, `(b, t, h, k)`; `k` is even.
        start: the position of the first vector, an integer.

    Returns:
        `(b, t, h, k)`, turned in float32, in the dtype of the inputs.

    Raises:
        ValueError: a wavelength that is not above zero, an odd width.

    Example:
        >>> tuple(RotaryEmbedding()(keras.ops.zeros((1, 5, 2, 8))).shape)
        (1, 5, 2, 8)
    """

    def __init__(self, *, max_wavelength: float = 10000.0, **kwargs: object) -> None:
        super().__init__(**kwargs)
        check_number(above=0, max_wavelength=max_wavelength)
        self.max_wavelength = max_wavelength

    def call(self, inputs: Tensor, start: Tensor | int = 0) -> Tensor:
        heads = as_floats(inputs)
        return _Rotation.of(ops.shape(heads)[1], heads.shape[-1], start, self.max_wavelength)(heads)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength}
