"""The encoder-decoder Transformer, "Attention Is All You Need", Figure 1."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers import DecoderCache, padding_mask
from keras_transformer.models.config import check_exactly_one, check_options, constructor_arguments
from keras_transformer.models.configured_model import Step
from keras_transformer.models.encoding_model import EncodingModel
from keras_transformer.models.parts import Parts, transformer_parts
from keras_transformer.models.source import one_segment, segment_inputs, segments_of, source_inputs
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(EncodingModel):
    """A Functional model from a source and target token ids to logits.

    The source is token ids, or frames of any width, each projected to the
    model's width. Padding is read from the ids themselves: 0 is padding, on
    both sides. Frames have a mask of their own.

    Args:
        source_vocabulary_size: the number of source ids; None for frames.
        target_vocabulary_size: the number of target ids, `v`.
        encoder_feature_dim: the width of a frame, `w`; None for source ids.
        num_layers: encoder layers, and decoder layers.
        num_encoder_layers: `num_layers` if None.
        num_decoder_layers: `num_layers` if None.
        hidden_dim: the model width, `d`.
        num_heads: the number of heads, `h`; it must divide `hidden_dim`.
        intermediate_dim: the inner width of the feed-forward networks, `f`.
        dropout: the rate of the dropout on embeddings and sub-layer outputs.
        attention_dropout: the rate of the dropout on the attention scores.
        intermediate_dropout: the rate of the dropout inside the feed-forward networks.
        activation: of the feed-forward networks.
        gated: whether the feed-forward networks are gated; see `layers.FeedForward`.
        norm_first: True for pre-norm, False for the paper's post-norm.
        normalization: `layer` or `rms`.
        layer_norm_epsilon: what normalisation adds to the variance.
        num_key_value_heads: heads of keys and values; `num_heads` if None.
        positions: `sinusoidal`, `learned`, `rotary` or `relative`.
        max_length: the number of learned positions; None for the other kinds.
        share_embeddings: whether source and target use one embedding.
        tie_output: whether the logits use the target embedding's table.
        packed: whether a row may hold several pairs, as `data.packed_dataset` gives them. The weights are
            the same; a model without the option can take them.
        **kwargs: `name` and `dtype` of a Keras model.

    Call arguments:
        inputs: a dict of `decoder_token_ids`, integers `(b, t)`: the target
            shifted right, starting with the start token; and
            `encoder_token_ids`, integers `(b, s)`, or for frames
            `encoder_features` `(b, s, w)` and `encoder_padding_mask` `(b, s)`,
            True (1) where there is a frame. Without the mask, or where it is
            None, every frame counts. With `packed` also `encoder_segment_ids`
            `(b, s)` and `decoder_segment_ids` `(b, t)`: integers that tell which
            pair of the row a token belongs to; without them a row is one pair.

    Returns:
        Logits `(b, t, v)`.

    Raises:
        ValueError: sizes not above zero, heads that do not divide the width,
            rates outside [0, 1), shared embeddings of different vocabularies
            or with frames, packed frames, not exactly one of source ids and frames.

    Example:
        >>> model = Transformer(100, 120, num_layers=1, hidden_dim=8, num_heads=2,
        ...                     intermediate_dim=16)
        >>> source, target = keras.ops.ones((2, 7), "int32"), keras.ops.ones((2, 5), "int32")
        >>> tuple(model({"encoder_token_ids": source, "decoder_token_ids": target}).shape)
        (2, 5, 120)
    """

    input_prefix = "encoder_"

    def __init__(
        self,
        source_vocabulary_size: int | None,
        target_vocabulary_size: int,
        *,
        encoder_feature_dim: int | None = None,
        num_layers: int = 6,
        num_encoder_layers: int | None = None,
        num_decoder_layers: int | None = None,
        hidden_dim: int = 512,
        num_heads: int = 8,
        intermediate_dim: int = 2048,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        intermediate_dropout: float = 0.0,
        activation: Any = "relu",
        gated: bool = False,
        norm_first: bool = False,
        normalization: str = "layer",
        layer_norm_epsilon: float = 1e-6,
        num_key_value_heads: int | None = None,
        positions: str = "sinusoidal",
        max_length: int | None = None,
        share_embeddings: bool = False,
        tie_output: bool = True,
        packed: bool = False,
        **kwargs: Any,
    ) -> None:
        config = constructor_arguments(locals())
        _check(config)
        parts = transformer_parts(config, kwargs.pop("dtype", None))
        inputs, outputs = _connect(parts, encoder_feature_dim, packed)
        super().__init__(config, parts, inputs=inputs, outputs=outputs, **kwargs)

    def start_decoding(
        self,
        inputs: Tensor,
        max_length: Tensor | int,
        beam_size: int = 1,
        *,
        padding_mask: Tensor | None = None,
        track_attention: bool = False,
    ) -> tuple[Step, DecoderCache]:
        """Run the encoder and prepare to decode step by step.

        Args:
            inputs: the source, as for `encode`.
            max_length: the number of target positions there is room for.
            beam_size: hypotheses for each source, `n`.
            padding_mask: as for `encode`.
            track_attention: whether the cache sums up the cross-attention, for a coverage penalty.

        Returns:
            `step` and the first cache. `step(token_ids (b * n,), position, cache)` returns the logits
            `(b * n, v)` of the token after `position`, and the cache with this position written.
        """
        return self.decode_step, self.create_cache(
            inputs, max_length, beam_size, padding_mask, track_attention
        )

    def create_cache(
        self,
        encoder_inputs: Tensor,
        max_length: Tensor | int,
        beam_size: int = 1,
        padding_mask: Tensor | None = None,
        track_attention: bool = False,
    ) -> DecoderCache:
        """Run the encoder, and make room to decode step by step.

        Args:
            encoder_inputs: as for `encode`.
            max_length: the number of target positions there is room for.
            beam_size: hypotheses for each source, `n`.
            padding_mask: as for `encode`.
            track_attention: whether the cache sums up the cross-attention, for a coverage penalty.

        Returns:
            The cache for `decode_step`.
        """
        encoder_output, mask = self.encode(encoder_inputs, padding_mask=padding_mask)
        self.output_projection.prepare_steps(beam_size)
        return self.decoder.create_cache(
            encoder_output, mask, max_length, beam_size, track_attention=track_attention
        )

    def decode_step(
        self, token_ids: Tensor, position: Tensor, cache: DecoderCache
    ) -> tuple[Tensor, DecoderCache]:
        """Compute the logits of the token that follows, from one token and the cache.

        Args:
            token_ids: integers `(b * n,)`, the token at `position` of each hypothesis.
            position: an integer scalar.
            cache: from `create_cache` or the step before.

        Returns:
            Logits `(b * n, v)` and the cache with this position written.
        """
        x = self.target_embedding(token_ids[:, None])  # (b * n, 1, d)
        x = self.position_encoding(x, start=position)
        x, cache = self.decoder.step(x, cache, position)
        return self.output_projection.step(x[:, 0, :]), cache

    def _complete(self, inputs: Tensor) -> Tensor:
        """Make one segment of each row where none are given."""
        inputs = super()._complete(inputs)
        return one_segment(inputs) if self.config["packed"] and isinstance(inputs, dict) else inputs

    def attention_scores(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Give every attention map of one teacher-forced pass.

        Args:
            inputs: as for the call.

        Returns:
            A dict of `encoder/layer_{i}/self_attention` `(b, h, s, s)`,
            `decoder/layer_{i}/self_attention` `(b, h, t, t)` and
            `decoder/layer_{i}/cross_attention` `(b, h, t, s)`, from 1.
        """
        inputs = self._complete(inputs)
        segments = segments_of(inputs)
        x, mask, encoder_scores = self._encode_with_scores(
            inputs, segments.source_positions, segments.source_mask
        )
        target = ops.convert_to_tensor(inputs["decoder_token_ids"])
        y = self.position_encoding(self.target_embedding(target), positions=segments.target_positions)
        _, decoder_scores = self.decoder(
            y,
            x,
            padding_mask=padding_mask(target),
            encoder_padding_mask=mask,
            attention_mask=segments.target_mask,
            cross_attention_mask=segments.cross_mask,
            return_attention_scores=True,
        )
        return {**encoder_scores, **{f"decoder/{name}": decoder_scores[name] for name in decoder_scores}}


def _check(config: dict[str, Any]) -> None:
    """Refuse a configuration before any weight is made."""
    source, features = config["source_vocabulary_size"], config["encoder_feature_dim"]
    check_exactly_one(source_vocabulary_size=source, encoder_feature_dim=features)
    check_options(config, optional=_OPTIONAL)
    if config["packed"] and features is not None:
        raise ValueError(
            "`packed` needs token ids as a source. Received: "
            f"packed={config['packed']}, encoder_feature_dim={features}."
        )
    if config["share_embeddings"] and source != config["target_vocabulary_size"]:
        raise ValueError(
            "`share_embeddings` needs vocabularies of the same size. Received: "
            f"source_vocabulary_size={source}, "
            f"target_vocabulary_size={config['target_vocabulary_size']}, encoder_feature_dim={features}."
        )


def _connect(parts: Parts, feature_dim: int | None, packed: bool) -> tuple[dict[str, Tensor], Tensor]:
    """Connect the layers as Figure 1 does."""
    source = source_inputs("encoder_", feature_dim)
    target = keras.Input((None,), dtype="int32", name="decoder_token_ids")  # (b, t)
    inputs = {**source.inputs, "decoder_token_ids": target, **(segment_inputs() if packed else {})}
    segments = segments_of(inputs)

    x = parts["source_embedding" if feature_dim is None else "source_projection"](source.values)
    x = parts["position_encoding"](x, positions=segments.source_positions)
    x = parts["encoder"](
        parts["embedding_dropout"](x),
        padding_mask=source.padding_mask,
        attention_mask=segments.source_mask,
    )

    y = parts["position_encoding"](parts["target_embedding"](target), positions=segments.target_positions)
    y = parts["decoder"](
        parts["embedding_dropout"](y),
        x,
        padding_mask=padding_mask(target),
        encoder_padding_mask=source.padding_mask,
        attention_mask=segments.target_mask,
        cross_attention_mask=segments.cross_mask,
    )
    logits = parts["output_projection"](y)  # (b, t, v)
    return inputs, logits


_OPTIONAL = ("source_vocabulary_size", "encoder_feature_dim", "num_encoder_layers", "num_decoder_layers")
