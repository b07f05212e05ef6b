"""What an encoder reads: token ids, or continuous frames such as audio, sensors or rows of images."""

from typing import NamedTuple

import keras
from keras import ops

from keras_transformer.layers import padding_mask as padding_mask_of
from keras_transformer.layers.masks import as_boolean
from keras_transformer.layers.validation import known_sizes
from keras_transformer.types import Shape, Tensor


class Source(NamedTuple):
    """The source of a Functional model."""

    inputs: dict[str, Tensor]
    """Each `keras.Input` by its name."""
    values: Tensor
    """Token ids `(b, s)` or features `(b, s, w)`."""
    padding_mask: Tensor
    """`(b, s)`, True (1) where there is a token or a frame."""


def source_inputs(prefix: str, feature_dim: int | None) -> Source:
    """Make the inputs of the encoder.

    Args:
        prefix: what the names of the inputs begin with.
        feature_dim: the width of a frame, `w`; None for token ids.

    Returns:
        `token_ids`, whose padding is read from the ids; or `features` and
        `padding_mask`.
    """
    if feature_dim is None:
        token_ids = keras.Input((None,), dtype="int32", name=f"{prefix}token_ids")  # (b, s)
        return Source({f"{prefix}token_ids": token_ids}, token_ids, padding_mask_of(token_ids))
    features = keras.Input((None, feature_dim), name=f"{prefix}features")  # (b, s, w)
    mask = keras.Input((None,), dtype="bool", name=f"{prefix}padding_mask")  # (b, s)
    return Source({f"{prefix}features": features, f"{prefix}padding_mask": mask}, features, mask)


def read_source(values: Tensor, mask: Tensor | None, feature_dim: int | None) -> tuple[Tensor, Tensor]:
    """Check a source and its mask, and make the mask where none is given.

    Args:
        values: token ids `(b, s)` or features `(b, s, w)`, of any array type.
        mask: `(b, s)`, True (1) where there is a token or a frame. If None, 0
            is padding among ids, and every frame counts.
        feature_dim: the width of a frame, `w`; None for token ids.

    Returns:
        The source and its boolean mask as tensors.

    Raises:
        TypeError: token ids that are not integers.
        ValueError: a source or a mask of another shape.
    """
    values = ops.convert_to_tensor(values)
    _check_values(values, feature_dim)
    if mask is not None:
        return values, check_padding_mask(mask, values.shape)
    if feature_dim is None:
        return values, padding_mask_of(values)
    return values, ops.ones(ops.shape(values)[:2], "bool")


def _check_values(values: Tensor, feature_dim: int | None) -> None:
    shape, dtype = tuple(values.shape), keras.backend.standardize_dtype(values.dtype)
    wanted = "integer token ids of shape (b, s)"
    if feature_dim is not None:
        wanted = f"features of shape (b, s, {feature_dim})"
    fits = len(shape) == 2 if feature_dim is None else len(shape) == 3 and shape[-1] == feature_dim
    if not fits:
        raise ValueError(f"`encoder_inputs` must be {wanted}. Received: shape={shape}.")
    if feature_dim is None and "int" not in dtype:
        raise TypeError(f"`encoder_inputs` must be {wanted}. Received: dtype={dtype}.")


def check_padding_mask(mask: Tensor, source_shape: Shape) -> Tensor:
    """Check a mask against what it covers.

    Args:
        mask: `(b, s)`, True (1) where there is a token or a frame.
        source_shape: `(b, s)` or `(b, s, w)`.

    Returns:
        The mask as a boolean tensor.

    Raises:
        TypeError: a mask of neither booleans nor numbers.
        ValueError: a mask of another shape, or of other numbers than 0 and 1.
    """
    mask = as_boolean(mask, "padding_mask")
    shape, source_shape = known_sizes(mask.shape), known_sizes(source_shape)
    sizes = zip(shape, source_shape, strict=False)
    if len(shape) != 2 or any(None not in pair and pair[0] != pair[1] for pair in sizes):
        raise ValueError(
            "`padding_mask` must have the shape (b, s) of the source. Received: padding_mask of shape "
            f"{shape}, source of shape {source_shape}."
        )
    return mask
