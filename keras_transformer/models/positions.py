"""How a model knows the order of its tokens."""

from typing import Any

import keras

from keras_transformer.layers import LearnedPositionEncoding, PositionEncoding
from keras_transformer.layers.validation import check_choice, check_positive
from keras_transformer.types import Shape, Tensor

POSITIONS = ("sinusoidal", "learned", "rotary", "relative")


def check_positions(positions: str, max_length: int | None) -> None:
    """Refuse what is not known, and learned positions without a number of them.

    Args:
        positions: `sinusoidal`, as in the paper, `learned`, `rotary` or `relative`.
        max_length: the number of positions that are learned; None for the others.

    Raises:
        ValueError: an unknown name; a length where none is needed, or none where one is.
    """
    check_choice(POSITIONS, positions=positions)
    if (positions == "learned") != (max_length is not None):
        raise ValueError(
            "`max_length` must be given for positions='learned', and for no others. "
            f"Received: positions={positions!r}, max_length={max_length}."
        )
    if max_length is not None:
        check_positive(max_length=max_length)


def attention_positions(positions: str) -> str | None:
    """Give the option of the stacks.

    Args:
        positions: as for `check_positions`.

    Returns:
        `rotary` or `relative`, which the self-attention of each layer does; None
        for what is added to the embeddings.
    """
    return positions if positions in ("rotary", "relative") else None


def make_position_encoding(positions: str, max_length: int | None, dtype: Any) -> keras.layers.Layer:
    """Make the layer between embeddings and stacks.

    Args:
        positions: as for `check_positions`.
        max_length: the number of positions that are learned.
        dtype: the dtype or dtype policy; None for Keras's own.

    Returns:
        A layer that is called with vectors `(b, t, d)`, and `start` or `positions`.
    """
    if positions == "sinusoidal":
        return PositionEncoding(dtype=dtype, name="position_encoding")
    if positions == "learned":
        return LearnedPositionEncoding(max_length or 1, dtype=dtype, name="position_encoding")
    return NoPositionEncoding(dtype=dtype, name="position_encoding")


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoPositionEncoding(keras.layers.Layer):
    """Adds nothing: the attention of each layer knows the positions.

    Args:
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        start: the position of the first vector; ignored.
        positions: of each vector; ignored.

    Returns:
        The inputs.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0, positions: Tensor | None = None) -> Tensor:
        return inputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)
