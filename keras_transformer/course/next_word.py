"""Greedy decoding as in the course, one word at a time."""

from typing import Any

from keras import ops

from keras_transformer.course.functions import create_look_ahead_mask, create_padding_mask
from keras_transformer.types import Tensor


def next_word(model: Any, encoder_input: Tensor, output: Tensor) -> Tensor:
    """Predict the word that follows what was written so far.

    Args:
        model: a `course.Transformer`, or anything called like one.
        encoder_input: integers `(b, s)`, the source; 0 is padding.
        output: integers `(b, t)`, the words so far.

    Returns:
        The most likely ids, int32 `(b, 1)`.
    """
    encoder_input, output = ops.convert_to_tensor(encoder_input), ops.convert_to_tensor(output)
    padding_mask = create_padding_mask(encoder_input)
    look_ahead_mask = create_look_ahead_mask(ops.shape(output)[1])
    probabilities, _ = model(encoder_input, output, False, padding_mask, look_ahead_mask, padding_mask)
    return ops.cast(ops.argmax(probabilities[:, -1:, :], axis=-1), "int32")
