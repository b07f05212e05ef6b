"""What an encoder reads: token ids, or continuous frames such as audio, sensors or rows of images."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.arguments import as_boolean, as_tensor, known_sizes
from keras_transformer.layers import padding_mask as padding_mask_of
from keras_transformer.layers import segment_mask, segment_positions
from keras_transformer.types import Shape, Tensor

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


@keras.saving.register_keras_serializable(package="keras_transformer")
class Pooling(keras.layers.Layer):
    """Turns the vectors of a sequence into one: their mean, or the first.

    The mean is taken over tokens only, in float32, so that padding never
    changes it.

    Args:
        mode: `mean`; or `first`, for sequences that start with a token that
            stands for the whole, as BERT's do.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`, True (1) where there is a token; None if
            everywhere. `first` takes position 0, whatever the mask.

    Returns:
        `(b, d)`; zeros for the mean of a sequence without any token.

    Raises:
        ValueError: an unknown mode.

    Example:
        >>> x = keras.ops.convert_to_tensor([[[1.0], [3.0], [9.0]]])
        >>> float(Pooling("mean")(x, padding_mask=keras.ops.convert_to_tensor([[1, 1, 0]]))[0, 0])
        2.0
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if mode not in ("mean", "first"):
            raise ValueError(f"`pooling` must be 'mean' or 'first'. Received: pooling={mode!r}.")
        self.mode = mode
        self.supports_masking = True

    def call(self, inputs: Tensor, padding_mask: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        if self.mode == "first":
            return inputs[:, 0, :]
        x = ops.cast(inputs, "float32")
        given = mask if padding_mask is None else padding_mask
        if given is None:
            return ops.cast(ops.mean(x, axis=1), self.compute_dtype)
        mask = ops.expand_dims(check_padding_mask(given, inputs.shape), -1)  # (b, s, 1)
        # Chosen, not multiplied: whatever stands at padding, NaN too, stays out.
        total = ops.sum(ops.where(mask, x, 0.0), axis=1)  # (b, d)
        count = ops.sum(ops.cast(mask, "float32"), axis=1)  # (b, 1)
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """End the Keras mask: no positions are left."""

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (inputs_shape[0], inputs_shape[2])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "mode": self.mode}
