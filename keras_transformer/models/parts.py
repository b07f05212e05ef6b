"""The layers that stand between inputs, stacks and outputs of the models."""

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
"""Each layer by the name of the model's attribute."""


def _embedding(config: _ModelConfig, vocabulary_size: int, dtype: object, name: str) -> TokenEmbedding:
    # A model hands its masks to the stacks itself.
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
    """Make what stands between embeddings and stacks: positions, a normalization of each side, dropout."""
    parts: Parts = {"position_encoding": _position_encoding(config, dtype, "position_encoding")}
    for side, stack in stacks.items() if config.normalize_embeddings else ():
        parts[f"{side}_normalization"] = stack.make_normalization(f"{side}_normalization")
    return {**parts, "embedding_dropout": Dropout(config.dropout, dtype=dtype, name="embedding_dropout")}


def _positioned(
    parts: Parts | keras.Model,
    side: str,
    vectors: Tensor,
    padding_mask: Tensor | None,
    *,
    start: Tensor | int = 0,
) -> Tensor:
    """Return what enters a stack `(b, t, d)`, before dropout: vectors with positions, perhaps normalized."""

    def part(name: str) -> keras.layers.Layer:
        return parts.get(name) if isinstance(parts, dict) else getattr(parts, name, None)

    # Positions of the target alone, where it has a table of its own.
    encoding = part(f"{side}_position_encoding") or part("position_encoding")
    normalize = part(f"{side}_normalization")
    x = encoding(vectors, start=start, padding_mask=padding_mask)
    return x if normalize is None else normalize(x)


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoPositionEncoding(keras.layers.Layer):
    """Adds nothing where the attention of each layer knows the positions; called as `PositionEncoding` is."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0, padding_mask: Tensor | None = None) -> Tensor:
        return inputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Pooling(keras.layers.Layer):
    """Turns the vectors `(b, s, d)` of a sequence into one, `(b, d)`: their mean, maximum or first.

    Mean and maximum are taken over tokens only, in float32; they are 0 for a sequence without any token.
    `first` takes the first token, for sequences that start with one that stands for the whole, as BERT's do.
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
            first = ops.argmax(ops.cast(mask, "int32"), axis=1)[:, :, None]  # (b, 1, 1), 0 without a token
            return ops.take_along_axis(inputs, first, axis=1)[:, 0, :]
        # (b, s, d) -> (b, d). Chosen, not multiplied: whatever stands at padding, NaN too, stays out.
        if self.mode == "max":
            highest = ops.max(ops.where(mask, x, MINUS_INFINITY), axis=1)
            return ops.cast(ops.where(ops.any(mask, axis=1), highest, 0.0), self.compute_dtype)
        total = ops.sum(ops.where(mask, x, 0.0), axis=1)
        # (b, s, 1) -> (b, 1)
        count = ops.sum(ops.cast(mask, "float32"), axis=1)
        # At least 1, so that a sequence without any token gives 0 and not NaN.
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """End the Keras mask: no positions are left."""

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return (inputs_shape[0], inputs_shape[2])

    def get_config(self) -> Config:
        return {**super().get_config(), "mode": self.mode}
