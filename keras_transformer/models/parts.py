"""Layers of the models before and after the stacks: embeddings, positions, pooling."""

from typing import TypeAlias

import keras
from keras import ops

from keras_transformer._arguments import check_choice
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.normalization import Dropout
from keras_transformer.layers.position_encoding import LearnedPositionEncoding, PositionEncoding
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.models.config import _ModelConfig
from keras_transformer.models.source import _check_padding_mask
from keras_transformer.types import MINUS_INFINITY, Config, Shape, Tensor

Parts: TypeAlias = dict[str, keras.layers.Layer]
"""Layers by attribute name of the model."""


def _embedding(config: _ModelConfig, vocabulary_size: int, dtype: object, name: str) -> TokenEmbedding:
    # No Keras mask: a model passes padding masks to the stacks explicitly.
    scale = config.scale_embeddings
    return TokenEmbedding(
        vocabulary_size, config.hidden_dim, scale=scale, mask_zero=False, dtype=dtype, name=name
    )


def _position_encoding(config: _ModelConfig, dtype: object, name: str) -> keras.layers.Layer:
    if config.positions.startswith("sinusoidal"):
        layout = "interleaved" if config.positions == "sinusoidal" else "concatenated"
        return PositionEncoding(layout=layout, dtype=dtype, name=name)
    if config.max_length is not None:
        return LearnedPositionEncoding(config.max_length, dtype=dtype, name=name)
    return NoPositionEncoding(dtype=dtype, name=name)


def _input_parts(config: _ModelConfig, dtype: object, **stacks: Encoder | Decoder) -> Parts:
    """Build the layers between embeddings and stacks: positions, normalization per side, dropout."""
    parts: Parts = {"position_encoding": _position_encoding(config, dtype, "position_encoding")}
    for side, stack in stacks.items() if config.normalize_embeddings else ():
        parts[f"{side}_normalization"] = stack.make_normalization(f"{side}_normalization")
    return {**parts, "embedding_dropout": Dropout(config.dropout, dtype=dtype, name="embedding_dropout")}


def _add_positions(
    parts: Parts | keras.Model,
    side: str,
    vectors: Tensor,
    padding_mask: Tensor | None,
    *,
    start: Tensor | int = 0,
) -> Tensor:
    """Return the input of a stack `(b, t, d)` before dropout: embeddings plus positions, maybe normalized."""

    def part(name: str) -> keras.layers.Layer:
        return parts.get(name) if isinstance(parts, dict) else getattr(parts, name, None)

    # Only the target may have a separate position encoding.
    encoding = part(f"{side}_position_encoding") or part("position_encoding")
    normalize = part(f"{side}_normalization")
    x = encoding(vectors, start=start, padding_mask=padding_mask)
    return x if normalize is None else normalize(x)


def _with_mask(x: keras.KerasTensor, padding_mask: Tensor) -> keras.KerasTensor:
    """Return the output of a stack with its mask, for layers that a user puts on it."""
    x._keras_mask = padding_mask  # Keras itself passes on only the masks that inputs have
    return x


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoPositionEncoding(keras.layers.Layer):
    """Identity in place of a `PositionEncoding`, for rotary and relative positions."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0, padding_mask: Tensor | None = None) -> Tensor:
        return inputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Pooling(keras.layers.Layer):
    """Pooling of a sequence of vectors `(b, s, d)` to one vector `(b, d)`: mean, maximum or first.

    All modes ignore padding. `mean` and `max` are computed in float32 and return 0 for a sequence without
    tokens. `first` returns the vector of the first token, such as BERT's `[CLS]`.
    """

    def __init__(self, mode: str = "mean", **kwargs: object) -> None:
        super().__init__(**kwargs)
        check_choice(("mean", "max", "first"), pooling=mode)
        self.mode = mode
        self.supports_masking = True

    def call(self, inputs: Tensor, padding_mask: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        given = mask if padding_mask is None else padding_mask
        if given is None and self.mode == "first":
            return inputs[:, 0, :]
        x = ops.cast(inputs, "float32")
        if given is None:
            pooled = ops.mean(x, axis=1) if self.mode == "mean" else ops.max(x, axis=1)
            return ops.cast(pooled, self.compute_dtype)
        # (b, s) -> (b, s, 1)
        mask = ops.expand_dims(_check_padding_mask(given, inputs.shape), -1)
        if self.mode == "first":
            first = ops.argmax(ops.cast(mask, "int32"), axis=1)[:, :, None]  # (b, 1, 1), 0 without tokens
            return ops.take_along_axis(inputs, first, axis=1)[:, 0, :]
        # (b, s, d) -> (b, d). Selected, because a product with the mask would keep NaN at padding.
        if self.mode == "max":
            highest = ops.max(ops.where(mask, x, MINUS_INFINITY), axis=1)
            return ops.cast(ops.where(ops.any(mask, axis=1), highest, 0.0), self.compute_dtype)
        total = ops.sum(ops.where(mask, x, 0.0), axis=1)
        # (b, s, 1) -> (b, 1)
        count = ops.sum(ops.cast(mask, "float32"), axis=1)
        # At least 1, so that the mean of a sequence without tokens is 0, not NaN.
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the output has no positions to mask."""

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (inputs_shape[0], inputs_shape[2])

    def get_config(self) -> Config:
        return {**super().get_config(), "mode": self.mode}
