"""Models that begin with an encoder."""

from typing import Any

import keras
from keras import ops

from keras_transformer.arguments import as_tensor
from keras_transformer.models.configured_model import ConfiguredModel
from keras_transformer.models.source import SEGMENT_INPUTS, check_padding_mask, read_source
from keras_transformer.types import Tensor


class EncodingModel(ConfiguredModel):
    """The base of `Transformer` and `EncoderModel`: its source is token ids or continuous frames.

    Args:
        config: see `ConfiguredModel`, as for the other arguments.
        parts: the layers.
        inputs: of the Functional model.
        outputs: of the Functional model.
        **kwargs: `name` of a Keras model.
    """

    input_prefix = ""
    """What the names of the encoder's inputs begin with."""

    def __call__(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Call the model. Without a padding mask every frame counts."""
        return super().__call__(self._complete(inputs), *args, **kwargs)

    def call(self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        # Keras on JAX trains through `call`, everything else comes through `__call__`.
        return super().call(self._complete(inputs), training=training, mask=mask)

    def encode(
        self, encoder_inputs: Tensor, training: bool = False, padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run the encoder alone.

        Args:
            encoder_inputs: token ids, integers `(b, s)`; or features `(b, s, w)`.
            training: whether dropout is on.
            padding_mask: `(b, s)`, True (1) where there is a token or a frame.
                If None, 0 is padding among ids, and every frame counts.

        Returns:
            The encoder's output `(b, s, d)` and the padding mask `(b, s)`.

        Raises:
            TypeError: token ids that are not integers.
            ValueError: inputs or a mask of another shape.
        """
        values, mask = read_source(encoder_inputs, padding_mask, self._feature_dim)
        x = self.position_encoding(self._source_layer(values))
        x = self.embedding_dropout(x, training=training)
        return self.encoder(x, padding_mask=mask, training=training), mask

    def _encode_with_scores(
        self, inputs: Tensor, positions: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Give the encoder's output, the mask and every attention map, from the inputs of a call."""
        inputs, prefix = self._complete(inputs), self.input_prefix
        values, mask = inputs, None
        if isinstance(inputs, dict):
            values = inputs[prefix + ("token_ids" if self._feature_dim is None else "features")]
            mask = inputs.get(f"{prefix}padding_mask")
        values, mask = read_source(values, mask, self._feature_dim)
        x = self.position_encoding(self._source_layer(values), positions=positions)
        x, scores = self.encoder(
            x, padding_mask=mask, attention_mask=attention_mask, return_attention_scores=True
        )
        return x, mask, {f"encoder/{name}": scores[name] for name in scores}

    def _complete(self, inputs: Tensor) -> Tensor:
        """Make the mask that may be left out, and refuse what Keras would drop without a word."""
        if not isinstance(inputs, dict):
            return inputs
        names, mask = {tensor.name for tensor in self.inputs}, f"{self.input_prefix}padding_mask"
        if not names - {mask, *SEGMENT_INPUTS} <= set(inputs) <= names:
            raise ValueError(f"`inputs` must have the keys {sorted(names)}. Received: keys {sorted(inputs)}.")
        if mask not in names:
            return inputs
        # Keras does not take tensors beside arrays.
        given = {name: as_tensor(value) for name, value in inputs.items() if name != mask}
        features = given[f"{self.input_prefix}features"]  # (b, s, w)
        if inputs.get(mask) is None:
            return {**given, mask: ops.ones_like(features[..., 0], dtype="bool")}
        # Before Keras makes booleans of whatever it is.
        return {**given, mask: check_padding_mask(inputs[mask], features.shape)}

    @property
    def _feature_dim(self) -> int | None:
        feature_dim: int | None = self.config[f"{self.input_prefix}feature_dim"]
        return feature_dim

    @property
    def _source_layer(self) -> keras.layers.Layer:
        return self.source_embedding if self._feature_dim is None else self.source_projection
