"""Packed rows of an encoder-decoder: what keeps the pairs of a row apart."""

from typing import NamedTuple

import keras
from keras import ops

from keras_transformer.layers import segment_mask, segment_positions
from keras_transformer.layers.dot_product_attention import as_tensor
from keras_transformer.types import Tensor

SEGMENT_INPUTS = ("encoder_segment_ids", "decoder_segment_ids")


class Segments(NamedTuple):
    """Positions and masks; all None where a row holds one pair."""

    source_positions: Tensor | None = None
    """`(b, s)`, counted from 0 in each segment."""
    target_positions: Tensor | None = None
    """`(b, t)`, likewise."""
    source_mask: Tensor | None = None
    """`(b, s, s)`, of the encoder's self-attention."""
    target_mask: Tensor | None = None
    """`(b, t, t)`, of the decoder's self-attention."""
    cross_mask: Tensor | None = None
    """`(b, t, s)`: a target sees the source of its own pair."""


def segment_inputs() -> dict[str, Tensor]:
    """Make the inputs that number the pairs of a row.

    Returns:
        Each `keras.Input` by its name.
    """
    return {name: keras.Input((None,), dtype="int32", name=name) for name in SEGMENT_INPUTS}


def segments_of(inputs: dict[str, Tensor]) -> Segments:
    """Work out what keeps the pairs of a row apart.

    Args:
        inputs: of a model, with segment ids or without.

    Returns:
        Positions and masks.
    """
    if not set(SEGMENT_INPUTS) <= set(inputs):
        return Segments()
    source, target = (inputs[name] for name in SEGMENT_INPUTS)
    return Segments(
        segment_positions(source),
        segment_positions(target),
        segment_mask(source, source),
        segment_mask(target, target),
        segment_mask(target, source),
    )


def one_segment(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Make one segment of each row where none are given.

    Args:
        inputs: of a packed model, with both segment ids or without them.

    Returns:
        The inputs with segment ids; where they were missing, 1 for each token, padding too.

    Raises:
        ValueError: segment ids of one side alone.
    """
    given = [name for name in SEGMENT_INPUTS if inputs.get(name) is not None]
    if len(given) == 1:
        raise ValueError(f"`inputs` must have the keys {SEGMENT_INPUTS}, or neither. Received: {given}.")
    tensors = {name: as_tensor(value) for name, value in inputs.items() if value is not None}
    if given:
        return tensors
    for name in SEGMENT_INPUTS:
        tensors[name] = ops.ones_like(tensors[name.replace("segment", "token")], dtype="int32")
    return tensors
