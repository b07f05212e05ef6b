"""Convolutional frame source, which halves the number of frames, as in Whisper (Radford et al. 2022)."""

import keras
from keras import ops

from keras_transformer._arguments import known_width
from keras_transformer.layers.projection import Dense
from keras_transformer.models.config import _ModelConfig
from keras_transformer.models.frame_source import _FrameSource
from keras_transformer.types import Config, Shape, Tensor


class _ConvolvedFrames(_FrameSource):
    """Source of frames `(b, s, w)` that two convolutions map to half as many vectors."""

    stride = 2

    def make_layer(self, config: _ModelConfig, dtype: object) -> keras.layers.Layer:
        return FrameConvolutions(config.hidden_dim, dtype=dtype, name=self.layer)

    def vectors(
        self, layer: keras.layers.Layer, values: Tensor, padding_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        # The second convolution, of stride 2, is centered at every second frame.
        return layer(values, padding_mask), padding_mask[:, :: self.stride]


@keras.saving.register_keras_serializable(package="keras_transformer")
class FrameConvolutions(keras.layers.Layer):
    """Two convolutions of width 3 with GELU, from frames `(b, s, w)` to vectors `(b, ceil(s / 2), d)`.

    Padding frames, and positions before the first and after the last frame, are read as zeros.
    """

    def __init__(self, hidden_dim: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.hidden_dim = hidden_dim
        # Dense layers over three neighbors: TensorFlow's convolution of an empty batch has a wrong shape.
        options: Config = {"activation": "gelu", "dtype": self.dtype_policy}
        self.first = Dense(hidden_dim, **options, name="first_convolution")
        self.second = Dense(hidden_dim, **options, name="second_convolution")
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
