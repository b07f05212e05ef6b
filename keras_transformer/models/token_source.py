"""Token id source."""

import keras

from keras_transformer.layers.masks import padding_mask
from keras_transformer.models.config import _ModelConfig
from keras_transformer.models.parts import _embedding
from keras_transformer.models.source import _mask_ids, _Source
from keras_transformer.types import Tensor


class _TokenSource(_Source):
    """Source of token ids, integers `(b, s)`; 0 is padding."""

    values, layer = "token_ids", "source_embedding"

    def __init__(self, prefix: str, vocabulary_size: int) -> None:
        super().__init__(prefix)
        self._vocabulary_size = vocabulary_size

    def make_layer(self, config: _ModelConfig, dtype: object) -> keras.layers.Layer:
        return _embedding(config, self._vocabulary_size, dtype, self.layer)

    def make_inputs(self) -> dict[str, Tensor]:
        return {self.values_name: keras.Input((None,), dtype="int32", name=self.values_name)}

    def padding_mask(self, values: Tensor) -> Tensor:
        return padding_mask(values)

    def hide(self, values: Tensor, mask: Tensor) -> Tensor:
        return _mask_ids(values, mask)

    def check(self, values: Tensor) -> None:
        # The embedding checks the type.
        if len(values.shape) != 2:
            wanted = "`encoder_inputs` must be integer token ids of shape (b, s)."
            raise ValueError(f"{wanted} Received: shape={tuple(values.shape)}.")
