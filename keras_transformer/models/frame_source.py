"""Frame source: audio, sensors, rows of images."""

import keras
from keras import ops

from keras_transformer.layers.projection import Dense
from keras_transformer.models.config import _ModelConfig
from keras_transformer.models.source import _Source
from keras_transformer.types import Tensor


class _FrameSource(_Source):
    """Source of frames `(b, s, w)`, projected to the model's width, with a padding mask `(b, s)`."""

    values, layer = "features", "source_projection"

    def __init__(self, prefix: str, feature_dim: int) -> None:
        super().__init__(prefix)
        self._feature_dim = feature_dim

    def make_layer(self, config: _ModelConfig, dtype: object) -> keras.layers.Layer:
        return Dense(config.hidden_dim, dtype=dtype, name=self.layer)

    def make_inputs(self) -> dict[str, Tensor]:
        return {
            self.values_name: keras.Input((None, self._feature_dim), name=self.values_name),
            self.mask_name: keras.Input((None,), dtype="bool", name=self.mask_name),
        }

    def vectors(
        self, layer: keras.layers.Layer, values: Tensor, padding_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        # (b, s, w) -> (b, s, d). Zeros at padding: a NaN there would make the gradient NaN.
        frames = ops.where(ops.expand_dims(padding_mask, -1), values, ops.zeros((), values.dtype))
        return layer(frames), padding_mask

    def padding_mask(self, values: Tensor) -> Tensor:
        """Return True for every frame."""
        # (b, s, w) -> (b, s)
        return ops.ones_like(values[..., 0], dtype="bool")

    def check(self, values: Tensor) -> None:
        shape = tuple(values.shape)
        if len(shape) != 3 or shape[-1] != self._feature_dim:
            raise ValueError(
                f"`encoder_inputs` must be features of shape (b, s, {self._feature_dim}). "
                f"Received: shape={shape}."
            )
