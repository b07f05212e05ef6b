"""Positions that are learned, Gehring et al. 2017 and BERT."""

from typing import Any

import keras
from keras import ops

from keras_transformer.arguments import (
    as_position,
    as_tensor,
    check_positive,
    check_sequence,
    check_width,
    known_sizes,
    known_width,
)
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositionEncoding(keras.layers.Layer):
    """Adds to each vector a learned mark of its position.

    What it was not trained for it does not know, so there is a longest length.

    Args:
        max_length: the number of positions.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: the position of the first vector, an integer.
        positions: integers `(b, t)` where they do not count up from `start`.

    Returns:
        `(b, t, d)`. While a graph is traced in which the length is not known, a
        position out of range gives NaN, never the mark of another one.

    Raises:
        ValueError: a length that is not above zero, inputs that are longer or of another width than the
            weights, or a position out of range.

    Example:
        >>> tuple(LearnedPositionEncoding(7)(keras.ops.zeros((1, 5, 8))).shape)
        (1, 5, 8)
    """

    def __init__(self, max_length: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(max_length=max_length)
        self.max_length = max_length
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.marks = self.add_weight(
            shape=(self.max_length, known_width(inputs=input_shape)),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="marks",
        )

    def call(self, inputs: Tensor, start: Tensor | int = 0, positions: Tensor | None = None) -> Tensor:
        positions = None if positions is None else as_tensor(positions)
        check_sequence(inputs, positions, self.max_length)
        check_width(self.marks.shape[-1], inputs=inputs)
        if positions is None:
            start = as_position(start)
            self._check_length(inputs, start)
            positions = (ops.arange(ops.shape(inputs)[1], dtype="int32") + start)[None, :]  # (1, t)
        is_known = ops.logical_and(positions >= 0, positions < self.max_length)
        positions = ops.clip(positions, 0, self.max_length - 1)
        marks = ops.take(self.marks, positions, axis=0)  # (b, t, d)
        marks = ops.where(ops.expand_dims(is_known, -1), ops.cast(marks, "float32"), float("nan"))
        return ops.cast(ops.cast(inputs, "float32") + marks, self.compute_dtype)

    def _check_length(self, inputs: Tensor, start: Tensor | int) -> None:
        """Refuse inputs that are known to be too long."""
        [length] = known_sizes(inputs.shape[1:2])
        is_real = getattr(getattr(inputs, "device", None), "type", "") != "meta"  # torch infers a shape there
        if is_real and length is not None and isinstance(start, int) and start + length > self.max_length:
            raise ValueError(
                f"`inputs` must end before position max_length={self.max_length}. "
                f"Received: start={start}, length={length}."
            )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}
