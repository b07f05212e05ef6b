"""The layer that adds sinusoids, "Attention Is All You Need", section 3.5."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.dot_product_attention import as_tensor
from keras_transformer.layers.sinusoids import LAYOUTS, sinusoidal_position_encoding
from keras_transformer.layers.validation import check_choice, known_sizes
from keras_transformer.layers.value_checks import check_known_positions, check_sequence
from keras_transformer.types import Shape, Tensor


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
        check_sequence(inputs, positions)
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
            check_known_positions(positions, *known_sizes((length,)))
            is_known = ops.logical_and(positions >= 0, positions < length)
            marks = ops.take(encoding, ops.clip(positions, 0, length - 1), axis=0)  # (b, t, d)
            marks = ops.where(ops.expand_dims(is_known, -1), marks, float("nan"))
        marked = ops.cast(inputs, "float32") + marks
        return ops.cast(marked, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength, "layout": self.layout}
