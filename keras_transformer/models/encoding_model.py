"""Base class of models with an encoder."""

from typing import cast

from keras_transformer.models.config import TransformerConfig, _EncoderConfig
from keras_transformer.models.configured_model import ConfiguredModel
from keras_transformer.models.convolved_frames import _ConvolvedFrames
from keras_transformer.models.frame_source import _FrameSource
from keras_transformer.models.parts import _add_positions
from keras_transformer.models.source import _Source
from keras_transformer.models.token_source import _TokenSource
from keras_transformer.types import Inputs, Tensor


def _make_source(prefix: str, config: TransformerConfig | _EncoderConfig) -> _Source:
    """Build the source that a configuration describes: token ids, frames or convolved frames."""
    options = config.options()
    vocabulary_size = options.get("source_vocabulary_size", options.get("vocabulary_size"))
    if vocabulary_size is not None:
        return _TokenSource(prefix, vocabulary_size)
    # The configuration has checked that either ids or frames are configured.
    feature_dim = cast("int", options.get("encoder_feature_dim", options.get("feature_dim")))
    return (_ConvolvedFrames if options.get("source_convolutions") else _FrameSource)(prefix, feature_dim)


class _EncodingModel(ConfiguredModel):
    """Base of `Transformer` and `EncoderModel`."""

    _source: _Source

    @property
    def max_source_length(self) -> int | None:
        """Maximum number of tokens or frames of a source; None without learned positions."""
        positions = self.config.options().get("max_source_positions") or self.max_length
        return None if positions is None else positions * self.source_stride

    @property
    def source_stride(self) -> int:
        """Number of tokens or frames for each vector of the encoder's output."""
        return self._source.stride

    def _complete(self, inputs: Inputs, mask: Tensor | None = None) -> Inputs:
        return self._source.complete(inputs, mask, {tensor.name for tensor in self.inputs})

    def encode(
        self, encoder_inputs: Tensor, training: bool = False, padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Run the encoder.

        Args:
            encoder_inputs: Token ids, integers `(b, s)`, or frames `(b, s, w)`.
            training: Whether to apply dropout.
            padding_mask: `(b, s)`; True (1) where there is a token or a frame. Defaults to True for
                ids other than 0 and for every frame.

        Returns:
            The encoder's output `(b, s, d)` and its padding mask `(b, s)`; `source_convolutions` halves `s`.

        Raises:
            TypeError: If token ids are not integers.
            ValueError: If the inputs or the mask have the wrong shape.
        """
        x, mask = self._embedded_source(*self._source.read(encoder_inputs, padding_mask), training)
        return self.encoder(x, padding_mask=mask, training=training), mask

    def _encode_with_scores(
        self, values: Tensor, padding_mask: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return what `encode` returns, and the attention scores; all their names begin with `encoder/`."""
        x, mask = self._embedded_source(values, padding_mask, training=False)
        scores: dict[str, Tensor] = {}
        x = self.encoder.compute(x, mask, scores=scores)
        return x, mask, {f"encoder/{name}": scores[name] for name in scores}

    def _embedded_source(self, values: Tensor, padding_mask: Tensor, training: bool) -> tuple[Tensor, Tensor]:
        x, mask = self._source.vectors(getattr(self, self._source.layer), values, padding_mask)
        return self.embedding_dropout(_add_positions(self, "source", x, mask), training=training), mask
