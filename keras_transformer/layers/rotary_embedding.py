"""Rotary position embedding, Su et al. 2021 (RoFormer)."""

from typing import NamedTuple

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer._arguments import (
    as_floats,
    as_position,
    as_precise,
    check_number,
    known_width,
)
from keras_transformer._backend.formulas import position_angles
from keras_transformer.types import Shape, Tensor


class _Rotation(NamedTuple):
    """Rotations of a range of positions, shared by all heads and layers."""

    signed_sine: Tensor
    """float32 `(t, 1, k)`: minus the sine for the first half of the features."""
    cosine: Tensor
    """float32 `(t, 1, k)`."""

    @classmethod
    def of(cls, length: Tensor | int, width: int, start: Tensor | int = 0) -> "_Rotation":
        """Return the rotations of `length` positions from `start` on, for heads of width `k`."""
        if width % 2:
            raise ValueError(f"`key_dim` must be even for rotary positions. Received: key_dim={width}.")
        return cls.by(position_angles(as_position(start), length, _rates(width)))

    @classmethod
    def by(cls, angles: Tensor) -> "_Rotation":
        """Return the rotations by angles `(..., t, k/2)`."""
        # (..., t, k/2) -> (..., t, 1, k/2), the same for all heads
        angles = ops.expand_dims(angles, -2)
        sine, cosine = ops.sin(angles), ops.cos(angles)
        return cls(ops.concatenate([-sine, sine], axis=-1), ops.concatenate([cosine, cosine], axis=-1))

    def __call__(self, heads: Tensor) -> Tensor:
        """Rotate queries or keys `(..., t, h, k)`, at least in float32."""
        x = as_precise(heads)
        cosine, signed_sine = (ops.cast(each, x.dtype) for each in (self.cosine, self.signed_sine))
        # Split, not sliced: TensorFlow pads and adds the gradient of every slice.
        first, second = ops.split(x, 2, axis=-1)
        turned = x * cosine + ops.concatenate([second, first], axis=-1) * signed_sine
        return ops.cast(turned, heads.dtype)


def _rates(width: int, max_wavelength: float = 10000.0) -> npt.NDArray[np.float64]:
    """Return the angle between neighboring positions for each pair of features, float64 `(k/2,)`."""
    half = width // 2
    return np.power(max_wavelength, np.arange(half) * (-1.0 / half), dtype="float64")


@keras.saving.register_keras_serializable(package="keras_transformer")
class RotaryEmbedding(keras.layers.Layer):
    """Rotary position embedding (RoPE) of queries and keys.

    Rotates each pair of features by an angle proportional to the position, so that query-key products depend
    only on relative positions (Su et al. 2021, section 3.2.2, equation 14). Feature `i` is paired with
    feature `i + k/2`. `MultiHeadAttention(positions="rotary")` does this itself; use this layer in your own
    attention.

    Args:
        max_wavelength: Base of the geometric progression of wavelengths; the slowest pair needs about
            `2π · max_wavelength` positions for one turn.
        scaling_factor: Divisor of the positions, for sequences longer than in training (Chen et al. 2023).
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: Queries or keys, `(b, t, h, k)`, or `(b, t, k)` for one head. `k` must be even.
        start: Position of the first vector, an integer.

    Returns:
        A tensor of the shape and dtype of the inputs. The rotation is computed at least in float32.

    Raises:
        ValueError: If `max_wavelength` or `scaling_factor` is not above zero, the width is odd, or the rank
            of the inputs is not 3 or 4.

    Example:
        >>> tuple(RotaryEmbedding()(keras.ops.zeros((1, 5, 2, 8))).shape)
        (1, 5, 2, 8)
    """

    def __init__(
        self, *, max_wavelength: float = 10000.0, scaling_factor: float = 1.0, **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        check_number(above=0, max_wavelength=max_wavelength, scaling_factor=scaling_factor)
        self.max_wavelength = max_wavelength
        self.scaling_factor = scaling_factor
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0) -> Tensor:
        self.compute_output_shape(inputs.shape)
        # (b, t, k) -> (b, t, 1, k)
        heads = as_floats(inputs if len(inputs.shape) == 4 else inputs[:, :, None, :])
        rates = _rates(heads.shape[-1], self.max_wavelength) / self.scaling_factor
        angles = position_angles(as_position(start), ops.shape(heads)[1], rates)
        turned = _Rotation.by(angles)(heads)
        return turned if len(inputs.shape) == 4 else turned[:, :, 0, :]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) not in (3, 4) or known_width(inputs=input_shape) % 2:
            raise ValueError(
                "`inputs` must have the shape (b, t, h, k) or (b, t, k), and an even width. "
                f"Received: shape={tuple(input_shape)}."
            )
        return tuple(input_shape)

    def get_config(self) -> dict[str, object]:
        options = {name: getattr(self, name) for name in ("max_wavelength", "scaling_factor")}
        return {**super().get_config(), **options}
