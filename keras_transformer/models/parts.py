"""The layers that stand between inputs, stacks and outputs of the models."""

from typing import TypeAlias

import keras
from keras import ops

from keras_transformer._arguments import check_choice, known_width
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


def _source_part(
    config: _ModelConfig, vocabulary_size: int | None, dtype: object, *, convolutions: bool = False
) -> Parts:
    """Make what turns a source into vectors: an embedding of token ids, or a projection of frames."""
    if vocabulary_size is None:
        project = FrameConvolutions if convolutions else keras.layers.Dense
        return {"source_projection": project(config.hidden_dim, dtype=dtype, name="source_projection")}
    return {"source_embedding": _embedding(config, vocabulary_size, dtype, "source_embedding")}


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


@keras.saving.register_keras_serializable(package="keras_transformer")
class NoPositionEncoding(keras.layers.Layer):
    """Adds nothing where the attention of each layer knows the positions; called as `PositionEncoding` is."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Tensor, start: Tensor | int = 0) -> Tensor:
        return inputs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)


@keras.saving.register_keras_serializable(package="keras_transformer")
class FrameConvolutions(keras.layers.Layer):
    """Turns frames `(b, s, w)` into vectors `(b, ceil(s / 2), d)`, by two convolutions.

    Padding counts as zeros, as what is before the first frame and behind the last does.
    """

    def __init__(self, hidden_dim: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        # Dense layers of three neighbors: TensorFlow's convolution of no rows has another shape.
        options: Config = {"activation": "gelu", "dtype": self.dtype_policy}
        self.first = keras.layers.Dense(hidden_dim, **options, name="first_convolution")
        self.second = keras.layers.Dense(hidden_dim, **options, name="second_convolution")
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self.first.build((*inputs_shape[:2], 3 * known_width(inputs=inputs_shape)))
        self.second.build((*inputs_shape[:2], 3 * self.hidden_dim))

    def call(self, inputs: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        # (b, s, w) -> (b, s, d) -> (b, ceil(s / 2), d)
        x = inputs
        for stride, convolution in enumerate((self.first, self.second), start=1):
            if padding_mask is not None:
                x = ops.where(padding_mask[..., None], x, ops.zeros((), x.dtype))
            x = ops.pad(x, ((0, 0), (1, 1), (0, 0)))
            neighbors = [x[:, :-2], x[:, 1:-1], x[:, 2:]]
            x = convolution(ops.concatenate([each[:, ::stride] for each in neighbors], axis=-1))
        return x

    def compute_output_shape(self, inputs_shape: Shape, padding_mask_shape: Shape | None = None) -> Shape:
        length = inputs_shape[1]
        return (inputs_shape[0], None if length is None else (length + 1) // 2, self.hidden_dim)

    def get_config(self) -> Config:
        return {**super().get_config(), "hidden_dim": self.hidden_dim}


@keras.saving.register_keras_serializable(package="keras_transformer")
class Pooling(keras.layers.Layer):
    """Turns the vectors `(b, s, d)` of a sequence into one, `(b, d)`: their mean, maximum or first.

    Mean and maximum are taken over tokens only, in float32; they are 0 for a sequence without any token.
    `first` takes position 0, whatever the mask, for sequences that start with a token that stands for the
    whole, as BERT's do.
    """

    def __init__(self, mode: str = "mean", **kwargs: object) -> None:
        super().__init__(**kwargs)
        check_choice(("mean", "max", "first"), pooling=mode)
        self.mode = mode
        self.supports_masking = True

    def call(self, inputs: Tensor, padding_mask: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        if self.mode == "first":
            return inputs[:, 0, :]
        x = ops.cast(inputs, "float32")
        given = mask if padding_mask is None else padding_mask
        if given is None:
            pooled = ops.mean(x, axis=1) if self.mode == "mean" else ops.max(x, axis=1)
            return ops.cast(pooled, self.compute_dtype)
        # (b, s) -> (b, s, 1)
        mask = ops.expand_dims(_check_padding_mask(given, inputs.shape), -1)
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
