"""Positions that are added to the inputs: sinusoids, section 3.5 of the paper, and learned vectors."""

import keras
import numpy as np
from keras import ops

from keras_transformer._arguments import (
    as_position,
    as_tensor,
    check_choice,
    check_number,
    check_positions,
    check_positive,
    check_sequence,
    check_width,
    known_sizes,
    known_width,
)
from keras_transformer._backend.formulas import position_angles
from keras_transformer._backend.gather import shape_of
from keras_transformer.types import Shape, Tensor

_LAYOUTS = ("interleaved", "concatenated")


def sinusoidal_position_encoding(
    length: Tensor | int,
    hidden_dim: int,
    *,
    start: Tensor | int = 0,
    max_wavelength: float = 10000.0,
    layout: str = "interleaved",
) -> Tensor:
    """Compute the sine and cosine waves that encode positions.

    `PE(p, 2i) = sin(p / w^(2i/d))` and `PE(p, 2i+1) = cos(p / w^(2i/d))`, with the maximal wavelength `w`.

    Args:
        length: the number of positions, `t`.
        hidden_dim: the width, `d`; odd widths end with a sine.
        start: the first position; above zero when decoding step by step.
        max_wavelength: the longest wave is `2 * pi` times as long.
        layout: `interleaved`, as in the paper: sine, cosine, sine, ...; or `concatenated`, as in its first
            implementation: all sines, then all cosines.

    Returns:
        A float32 tensor `(t, d)`.

    Raises:
        ValueError: an unknown layout.
    """
    check_choice(_LAYOUTS, layout=layout)
    num_waves = (hidden_dim + 1) // 2
    # In float64: a float32 product of a position and a rate loses a digit with each digit of the position.
    rates = np.power(max_wavelength, np.arange(num_waves) * (-2.0 / hidden_dim), dtype="float64")
    # (waves,) -> (t, waves), always in float32: in half precision neighboring positions would become equal
    angles = position_angles(as_position(start), length, rates)
    if layout == "concatenated":
        return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)[:, :hidden_dim]
    # (t, waves) -> (t, waves, 2) -> (t, 2 * waves); an odd width loses the last cosine
    waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(waves, (-1, 2 * num_waves))[:, :hidden_dim]


def _take_positions(encoding: Tensor, positions: Tensor, length: Tensor | int) -> Tensor:
    # (length, d), (b, t) -> (b, t, d); NaN for a position out of range, and never another vector
    is_known = ops.logical_and(positions >= 0, positions < length)
    vectors = ops.take(encoding, ops.clip(positions, 0, length - 1), axis=0)
    return ops.where(ops.expand_dims(is_known, -1), ops.cast(vectors, "float32"), float("nan"))


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionEncoding(keras.layers.Layer):
    """Adds to each vector the sinusoidal encoding of its position.

    It has no weights and no limit of length.

    Args:
        max_wavelength: the longest wave is `2 * pi` times as long.
        layout: `interleaved` or `concatenated`; see `sinusoidal_position_encoding`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: the position of the first vector, an integer.
        positions: integers `(b, t)`, at least 0 and below `t`, where they do not count up from `start`, as in
            packed examples.

    Returns:
        `(b, t, d)`, inputs and encodings added in float32, in the layer's dtype. While a graph is traced, one
        of `positions` that is out of range gives NaN.

    Raises:
        ValueError: a wavelength that is not above zero, an unknown layout, or a position out of range.

    Example:
        >>> tuple(PositionEncoding()(keras.ops.zeros((1, 5, 8))).shape)
        (1, 5, 8)
    """

    def __init__(
        self, *, max_wavelength: float = 10000.0, layout: str = "interleaved", **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        check_number(above=0, max_wavelength=max_wavelength)
        check_choice(_LAYOUTS, layout=layout)
        self.max_wavelength = max_wavelength
        self.layout = layout
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0, positions: Tensor | None = None) -> Tensor:
        positions = None if positions is None else as_tensor(positions)
        self.compute_output_shape(inputs.shape, None if positions is None else positions.shape)
        check_positions(positions, *known_sizes(inputs.shape[1:2]))
        length = shape_of(inputs)[1]
        encoding = sinusoidal_position_encoding(
            length,
            inputs.shape[-1],
            start=start if positions is None else 0,
            max_wavelength=self.max_wavelength,
            layout=self.layout,
        )
        is_plain = positions is None
        # (t, d) -> (1, t, d), or (b, t, d)
        vectors = encoding[None, :, :] if is_plain else _take_positions(encoding, positions, length)
        return ops.cast(ops.cast(inputs, "float32") + vectors, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape, positions_shape: Shape | None = None) -> Shape:
        check_sequence(inputs_shape, positions_shape)
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength, "layout": self.layout}


@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositionEncoding(keras.layers.Layer):
    """Adds to each vector a learned one of its position, Gehring et al. 2017 and BERT.

    It does not know positions that it was not trained for, so there is a longest length.

    Args:
        max_length: the number of positions.
        initializer: draws the vectors; normal of deviation 0.02 if None.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: the position of the first vector, an integer.
        positions: integers `(b, t)` where they do not count up from `start`.

    Returns:
        `(b, t, d)`. While a graph is traced in which the length is not known, a position out of range gives
        NaN.

    Raises:
        ValueError: a length that is not above zero, inputs that are longer or of another width than the
            weights, or a position out of range.

    Example:
        >>> tuple(LearnedPositionEncoding(7)(keras.ops.zeros((1, 5, 8))).shape)
        (1, 5, 8)
    """

    def __init__(self, max_length: int, *, initializer: object = None, **kwargs: object) -> None:
        super().__init__(**kwargs)
        check_positive(max_length=max_length)
        self.max_length = max_length
        self.initializer = keras.initializers.get(initializer)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.marks = self.add_weight(
            shape=(self.max_length, known_width(inputs=input_shape)),
            initializer=self.initializer or keras.initializers.RandomNormal(stddev=0.02),
            name="marks",
        )

    def call(self, inputs: Tensor, start: Tensor | int = 0, positions: Tensor | None = None) -> Tensor:
        positions = None if positions is None else as_tensor(positions)
        positions_shape = None if positions is None else positions.shape
        start = as_position(start)
        # torch infers shapes on its device `meta`, from sizes that Keras has made up.
        is_real = getattr(getattr(inputs, "device", None), "type", "") != "meta"
        shape = inputs.shape if is_real else (None, None, inputs.shape[-1])
        self._check_shapes(shape, positions_shape, start)
        check_positions(positions, self.max_length)
        if positions is None:
            # (t,) -> (1, t)
            positions = (ops.arange(shape_of(inputs)[1], dtype="int32") + start)[None, :]
        vectors = _take_positions(self.marks, positions, self.max_length)
        return ops.cast(ops.cast(inputs, "float32") + vectors, self.compute_dtype)

    def _check_shapes(
        self, inputs_shape: Shape, positions_shape: Shape | None, start: Tensor | int = 0
    ) -> None:
        check_sequence(inputs_shape, positions_shape)
        if self.built:
            check_width(self.marks.shape[-1], inputs=inputs_shape)
        [length] = known_sizes(inputs_shape[1:2])
        end = start + length if length is not None and isinstance(start, int) else 0
        if positions_shape is None and end > self.max_length:
            raise ValueError(
                f"`inputs` must end before position max_length={self.max_length}. "
                f"Received: start={start}, length={length}."
            )

    def compute_output_shape(self, inputs_shape: Shape, positions_shape: Shape | None = None) -> Shape:
        self._check_shapes(inputs_shape, positions_shape)
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, object]:
        initializer = keras.initializers.serialize(self.initializer)
        return {**super().get_config(), "max_length": self.max_length, "initializer": initializer}
