"""The base of models that have an encoder: what it reads, and its own output."""

from typing import cast

from keras_transformer.models.config import TransformerConfig, _EncoderConfig
from keras_transformer.models.configured_model import ConfiguredModel
from keras_transformer.models.convolved_frames import _ConvolvedFrames
from keras_transformer.models.frame_source import _FrameSource
from keras_transformer.models.parts import _positioned
from keras_transformer.models.source import _Source
from keras_transformer.models.token_source import _TokenSource
from keras_transformer.types import Inputs, Tensor


def _make_source(prefix: str, config: TransformerConfig | _EncoderConfig) -> _Source:
    """Make the source that a configuration describes: here alone the kinds are told apart."""
    options = config.options()
    vocabulary_size = options.get("source_vocabulary_size", options.get("vocabulary_size"))
    if vocabulary_size is not None:
        return _TokenSource(prefix, vocabulary_size)
    # The configuration has checked that one of the two is given.
    feature_dim = cast("int", options.get("encoder_feature_dim", options.get("feature_dim")))
    return (_ConvolvedFrames if options.get("source_convolutions") else _FrameSource)(prefix, feature_dim)


class _EncodingModel(ConfiguredModel):
    """The base of `Transformer` and `EncoderModel`."""

    _source: _Source

    def _complete(self, inputs: Inputs, mask: Tensor | None = None) -> Inputs:
        return self._source.complete(inputs, mask, {tensor.name for tensor in self.inputs})

    def encode(
        self, encoder_inputs: Tensor, training: bool = False, padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run the encoder alone.

        Args:
            encoder_inputs: token ids, integers `(b, s)`; or features `(b, s, w)`.
            training: whether dropout is on.
            padding_mask: `(b, s)`, True (1) where there is a token or a frame. If None, 0 is padding among
                ids, and every frame counts.

        Returns:
            The encoder's output `(b, s, d)` and its padding mask `(b, s)`; with `source_convolutions` of half
            the length.

        Raises:
            TypeError: if token ids are not integers.
            ValueError: if inputs or mask have another shape.
        """
        x, mask = self._embedded_source(*self._source.read(encoder_inputs, padding_mask), training)
        return self.encoder(x, padding_mask=mask, training=training), mask

    def _encoder_scores(self, values: Tensor, padding_mask: Tensor) -> dict[str, Tensor]:
        """Return the attention maps of the encoder, by their names among those of the model."""
        x, mask = self._embedded_source(values, padding_mask, training=False)
        return {f"encoder/{name}": scores for name, scores in self.encoder.attention_scores(x, mask).items()}

    def _embedded_source(self, values: Tensor, padding_mask: Tensor, training: bool) -> tuple[Tensor, Tensor]:
        x, mask = self._source.vectors(getattr(self, self._source.layer), values, padding_mask)
        return self.embedding_dropout(_positioned(self, "source", x, mask), training=training), mask
