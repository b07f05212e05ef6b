"""Sinusoidal and learned position encodings, added to the inputs; section 3.5 of the paper."""

import keras
import numpy as np
from keras import ops

from keras_transformer._arguments import (
    as_position,
    as_precise,
    check_choice,
    check_number,
    check_positive,
    check_width,
    known_sizes,
    known_width,
)
from keras_transformer._backend.formulas import position_angles
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.layers.masks import _checked_padding_mask, _nan_unless_masks
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
    """Return the sinusoidal position encoding of a range of positions.

    `PE(p, 2i) = sin(p / w^(2i/d))` and `PE(p, 2i+1) = cos(p / w^(2i/d))`, where `w` is `max_wavelength`.

    Args:
        length: Number of positions, `t`.
        hidden_dim: Width, `d`. An odd width drops the last cosine.
        start: First position; above zero when decoding step by step.
        max_wavelength: Wavelengths range from `2π` to `2π · max_wavelength` positions.
        layout: `interleaved` (sine, cosine, sine, …) as in the paper, or `concatenated` (all sines, then all
            cosines) as in Tensor2Tensor.

    Returns:
        A float32 tensor `(t, d)`.

    Raises:
        ValueError: If the layout is unknown or the wavelength is not above zero.
    """
    check_choice(_LAYOUTS, layout=layout)
    check_positive(hidden_dim=hidden_dim)
    check_number(above=0, max_wavelength=max_wavelength)
    num_waves = (hidden_dim + 1) // 2
    # In float64: a float32 product of position and rate loses precision at large positions.
    rates = np.power(max_wavelength, np.arange(num_waves) * (-2.0 / hidden_dim), dtype="float64")
    # (waves,) -> (t, waves), always in float32: half precision cannot distinguish neighboring positions
    angles = position_angles(as_position(start), length, rates)
    if layout == "concatenated":
        return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)[:, :hidden_dim]
    # (t, waves) -> (t, waves, 2) -> (t, 2 * waves); an odd width drops the last cosine
    waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(waves, (-1, 2 * num_waves))[:, :hidden_dim]


def _token_positions(positions: Tensor, padding_mask: Tensor, start: Tensor | int = 0) -> Tensor:
    """Return positions `(b, t)` counted from the first token of each row, which may begin with padding."""
    num_tokens = ops.cumsum(ops.cast(padding_mask, "int32"), axis=1)  # (b, t), up to each position
    num_before = ops.sum(ops.cast(ops.equal(num_tokens, 0), "int32"), axis=1, keepdims=True)  # (b, 1)
    counted = ops.maximum(positions[None, :] - num_before, start)
    return ops.where(ops.any(padding_mask, axis=1, keepdims=True), counted, positions[None, :])


def _real_shape(inputs: Tensor) -> Shape:
    """Return the shape, without the sizes that Keras invents on torch's `meta` device to infer shapes."""
    is_real = getattr(getattr(inputs, "device", None), "type", "") != "meta"
    return inputs.shape if is_real else (None, None, inputs.shape[-1])


def _check_sequence(inputs: Shape) -> None:
    if len(inputs) != 3:
        raise ValueError(f"`inputs` must have the shape (b, t, d). Received: shape={tuple(inputs)}.")


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionEncoding(keras.layers.Layer):
    """Sinusoidal position encoding, added to the inputs.

    The layer has no weights and no maximum length.

    Args:
        max_wavelength: Wavelengths range from `2π` to `2π · max_wavelength` positions.
        layout: `interleaved` or `concatenated`; see `sinusoidal_position_encoding`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: Position of the first vector, an integer.
        padding_mask: `(b, t)`; True (1) where there is a token. If given, positions count from the first
            token of each row (left padding); else from the first vector.

    Returns:
        `(b, t, d)` in the layer's compute dtype. The sum is computed at least in float32.

    Raises:
        ValueError: If the wavelength is not above zero, the layout is unknown, or the mask has another shape
            or other numbers than 0 and 1.

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

    def call(self, inputs: Tensor, start: Tensor | int = 0, padding_mask: Tensor | None = None) -> Tensor:
        self.compute_output_shape(inputs.shape)
        encoding = sinusoidal_position_encoding(
            dynamic_shape(inputs)[1],
            inputs.shape[-1],
            start=start,
            max_wavelength=self.max_wavelength,
            layout=self.layout,
        )
        if padding_mask is None:
            encoding = encoding[None, :, :]  # (t, d) -> (1, t, d)
        else:
            rows = ops.arange(dynamic_shape(inputs)[1], dtype="int32")
            mask = _checked_padding_mask(padding_mask, _real_shape(inputs))
            encoding = ops.take(encoding, _token_positions(rows, mask), axis=0)  # (t, d) -> (b, t, d)
        precise = as_precise(inputs)
        outputs = ops.cast(precise + ops.cast(encoding, precise.dtype), self.compute_dtype)
        return _nan_unless_masks(outputs, padding_mask)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        _check_sequence(input_shape)
        return tuple(input_shape)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "max_wavelength": self.max_wavelength, "layout": self.layout}


@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositionEncoding(keras.layers.Layer):
    """Learned position embeddings, added to the inputs (Gehring et al. 2017; BERT).

    Args:
        max_length: Number of positions, the longest possible sequence.
        initializer: Initializer of the embeddings. Defaults to a normal distribution with standard deviation
            0.02.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: Position of the first vector, an integer.
        padding_mask: See `PositionEncoding`.

    Returns:
        `(b, t, d)`. In a traced graph with unknown length or `start`, a position out of range yields NaN.

    Raises:
        ValueError: If `max_length` is not above zero, the inputs are longer than `max_length` or of another
            width than the weights, or the mask has another shape or other numbers than 0 and 1.

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
        self.embeddings = self.add_weight(
            shape=(self.max_length, known_width(inputs=input_shape)),
            initializer=self.initializer or keras.initializers.RandomNormal(stddev=0.02),
            name="embeddings",
        )

    def call(self, inputs: Tensor, start: Tensor | int = 0, padding_mask: Tensor | None = None) -> Tensor:
        start = as_position(start)
        shape = _real_shape(inputs)
        self._check_shape(shape, start)
        positions = ops.arange(dynamic_shape(inputs)[1], dtype="int32") + start
        # (t,) -> (1, t) or (b, t)
        if padding_mask is None:
            positions = positions[None, :]
        else:
            positions = _token_positions(positions, _checked_padding_mask(padding_mask, shape), start)
        # -> (1, t, d) or (b, t, d); NaN for a position out of range, never the vector of another position
        is_known = ops.logical_and(positions >= 0, positions < self.max_length)
        vectors = ops.take(self.embeddings, ops.clip(positions, 0, self.max_length - 1), axis=0)
        precise = as_precise(inputs)
        vectors = ops.cast(vectors, precise.dtype)
        vectors = ops.where(ops.expand_dims(is_known, -1), vectors, ops.cast(float("nan"), precise.dtype))
        return _nan_unless_masks(ops.cast(precise + vectors, self.compute_dtype), padding_mask)

    def _check_shape(self, inputs_shape: Shape, start: Tensor | int = 0) -> None:
        _check_sequence(inputs_shape)
        if self.built:
            check_width(self.embeddings.shape[-1], inputs=inputs_shape)
        [length] = known_sizes(inputs_shape[1:2])
        end = start + length if length is not None and isinstance(start, int) else 0
        if end > self.max_length:
            raise ValueError(
                f"`inputs` must end before position max_length={self.max_length}. "
                f"Received: start={start}, length={length}."
            )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        self._check_shape(input_shape)
        return tuple(input_shape)

    def get_config(self) -> dict[str, object]:
        initializer = keras.initializers.serialize(self.initializer)
        return {**super().get_config(), "max_length": self.max_length, "initializer": initializer}
