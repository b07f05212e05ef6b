"""The inputs of a pass in which the target is given: how pairs are scored and aligned."""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.types import Tensor


class TeacherForcing(NamedTuple):
    """A target, shifted by one token."""

    inputs: dict[str, Tensor]
    """What the model is called with; its decoder reads `(b, t - 1)`."""
    target_ids: Tensor
    """int32 `(b, t - 1)`, what it has to predict."""


def teacher_forcing(
    encoder_inputs: Tensor, decoder_token_ids: Tensor, padding_mask: Tensor | None = None
) -> TeacherForcing:
    """Make the inputs of a model from a source and a whole target.

    Args:
        encoder_inputs: token ids `(b, s)`; or features `(b, s, w)`.
        decoder_token_ids: integers `(b, t)`, the start token first, padded with 0.
        padding_mask: `(b, s)`, True (1) where features have a frame; None for ids, or if every frame
            counts.

    Returns:
        The inputs, and the tokens that each position of the decoder has to predict.

    Raises:
        TypeError: targets that are not integers.
        ValueError: targets of another rank, or without a token after the first.
    """
    encoder_inputs, ids = ops.convert_to_tensor(encoder_inputs), ops.convert_to_tensor(decoder_token_ids)
    _check_targets(ids)
    ids = ops.cast(ids, "int32")
    inputs: dict[str, Any] = {"decoder_token_ids": ids[:, :-1]}
    if len(encoder_inputs.shape) == 2:
        return TeacherForcing({"encoder_token_ids": encoder_inputs, **inputs}, ids[:, 1:])
    if padding_mask is not None:
        inputs["encoder_padding_mask"] = padding_mask
    return TeacherForcing({"encoder_features": encoder_inputs, **inputs}, ids[:, 1:])


def _check_targets(ids: Tensor) -> None:
    shape = tuple(ids.shape)
    if "int" not in str(ids.dtype):
        raise TypeError(f"`decoder_token_ids` must be integers. Received: dtype={ids.dtype}.")
    if len(shape) != 2 or (isinstance(shape[1], int) and shape[1] < 2):
        raise ValueError(
            "`decoder_token_ids` must have the shape (b, t), the start token and at least one more. "
            f"Received: shape={shape}."
        )
