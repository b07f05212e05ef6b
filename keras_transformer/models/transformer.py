"""Encoder-decoder Transformer, "Attention Is All You Need", Figure 1."""

import dataclasses
from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import check_positive
from keras_transformer.layers.cached_decoder import CachedDecoder
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.masks import padding_mask
from keras_transformer.layers.token_embedding import OutputProjection
from keras_transformer.models.config import TransformerConfig, _check_exactly_one
from keras_transformer.models.configured_model import Step
from keras_transformer.models.decoding_step import _DecodingStep
from keras_transformer.models.encoding_model import _EncodingModel, _make_source
from keras_transformer.models.parts import (
    Parts,
    _add_positions,
    _embedding,
    _input_parts,
    _position_encoding,
    _with_mask,
)
from keras_transformer.models.source import _Source
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(_EncodingModel):
    """Encoder-decoder Transformer: source and target token ids to target logits.

    A Functional model. The source is token ids or frames. Token id 0 is padding in source and target.

    Args:
        source_vocabulary_size: Number of source token ids; None for frames.
        target_vocabulary_size: Number of target token ids, `v`.
        **options: The other fields of `TransformerConfig`, and `name` and `dtype` of a Keras model.

    Call arguments:
        inputs: A dict. `encoder_token_ids`: integers `(b, s)`. `decoder_token_ids`: integers `(b, t)`, the
            target shifted right, with the start token first. For frames, `encoder_features` `(b, s, w)`
            replaces `encoder_token_ids`. An optional `encoder_padding_mask` `(b, s)` is True (1) at frames
            and False (0) at padding; without it, no frame is padding.

    Returns:
        Logits `(b, t, v)`.

    Raises:
        TypeError: If an option is unknown or has the wrong type.
        ValueError: If options are out of range or contradict each other.

    Example:
        >>> model = Transformer(100, 120, num_layers=1, hidden_dim=8, num_heads=2,
        ...                     intermediate_dim=16)
        >>> source, target = keras.ops.ones((2, 7), "int32"), keras.ops.ones((2, 5), "int32")
        >>> tuple(model({"encoder_token_ids": source, "decoder_token_ids": target}).shape)
        (2, 5, 120)
    """

    config: TransformerConfig

    def __init__(
        self,
        source_vocabulary_size: int | None,
        target_vocabulary_size: int,
        **options: Any,
    ) -> None:
        sizes = {
            "source_vocabulary_size": source_vocabulary_size,
            "target_vocabulary_size": target_vocabulary_size,
        }
        config, others = TransformerConfig.split(type(self), options, **sizes)
        _check_exactly_one(
            source_vocabulary_size=source_vocabulary_size, encoder_feature_dim=config.encoder_feature_dim
        )
        check_positive(target_vocabulary_size=target_vocabulary_size)
        dtype = others.pop("dtype", None)
        source = _make_source("encoder_", config)
        parts = _parts(config, source, target_vocabulary_size, dtype)
        inputs, outputs = _connect(parts, source)
        super().__init__(inputs=inputs, outputs=outputs, **others)
        self._source = source
        self._store_config(config, parts)

    def start_decoding(
        self,
        inputs: Tensor,
        max_length: Tensor | int,
        beam_size: int = 1,
        *,
        padding_mask: Tensor | None = None,
        in_place: bool = False,
    ) -> tuple[Step[CachedDecoder.Cache], CachedDecoder.Cache]:
        """Run the encoder and return the function that decodes step by step.

        Args:
            inputs: The source, as for `encode`.
            max_length: Maximum number of target positions.
            beam_size: Number of hypotheses per source, `n`.
            padding_mask: The source's padding mask, as for `encode`.
            in_place: Whether a step may overwrite the cache passed to it. This avoids copies in TensorFlow
                graphs; use it only if your loop owns the cache.

        Returns:
            `step`, and the initial cache. `step(token_ids, position, cache)` takes the tokens at `position`,
            integers `(b * n,)`. It returns the logits of the next token, `(b * n, v)`, and the cache with
            this position.
        """
        encoder_output, mask = self.encode(inputs, padding_mask=padding_mask)
        step = _DecodingStep(self, "target", in_place=in_place)
        # Lets torch free the encoder's activations, since decoding needs no gradient.
        encoder_output = ops.stop_gradient(encoder_output)
        return step, step.decoder.create_cache(encoder_output, mask, max_length, beam_size)

    def attention_scores(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the attention scores of every layer in one teacher-forced pass.

        Returns:
            A dict of `encoder/layer_{i}/self_attention` to `(b, h, s, s)`, `decoder/layer_{i}/self_attention`
            to `(b, h, t, t)` and `decoder/layer_{i}/cross_attention` to `(b, h, t, s)`. `i` counts from 1.
        """
        inputs = self._complete(inputs)
        x, encoder_mask, encoder_scores = self._encode_with_scores(*self._source.split(inputs))
        target = ops.convert_to_tensor(inputs["decoder_token_ids"])
        target_mask = padding_mask(target)
        y = _add_positions(self, "target", self.target_embedding(target), target_mask)
        scores = self.decoder.attention_scores(
            y, x, padding_mask=target_mask, encoder_padding_mask=encoder_mask
        )
        return {**encoder_scores, **{f"decoder/{name}": scores[name] for name in scores}}


def _parts(config: TransformerConfig, source: _Source, target_size: int, dtype: object) -> Parts:
    """Build the layers. With shared embeddings two names refer to one layer."""
    target_embedding = _embedding(config, target_size, dtype, "target_embedding")
    shared = target_embedding if config.share_embeddings else None
    parts: Parts = {source.layer: shared or source.make_layer(config, dtype)}
    source_config = config
    if config.max_source_positions is not None:
        source_config = dataclasses.replace(config, max_length=config.max_source_positions)
    encoder_depth = config.num_encoder_layers or config.num_layers
    decoder_depth = config.num_decoder_layers or config.num_layers
    encoder = Encoder(encoder_depth, **config.stack_options(), dtype=dtype, name="encoder")
    decoder = Decoder(decoder_depth, **config.stack_options(), dtype=dtype, name="decoder")
    if not config.share_positions:
        name = "target_position_encoding"
        parts[name] = _position_encoding(config, dtype, name)
    return {
        **parts,
        "target_embedding": target_embedding,
        **_input_parts(source_config, dtype, source=encoder, target=decoder),
        "encoder": encoder,
        "decoder": decoder,
        "output_projection": OutputProjection(
            target_size,
            embedding=target_embedding if config.tie_output else None,
            use_bias=config.output_bias,
            dtype=dtype,
            name="output_projection",
        ),
    }


def _connect(parts: Parts, source: _Source) -> tuple[dict[str, Tensor], Tensor]:
    """Connect the layers as in Figure 1."""
    inputs = {
        **source.make_inputs(),
        "decoder_token_ids": keras.Input((None,), dtype="int32", name="decoder_token_ids"),  # (b, t)
    }
    values, mask = source.split(inputs)

    # (b, s), or frames (b, s, w) -> (b, s, d); source convolutions halve the length
    x, mask = source.vectors(parts[source.layer], values, mask)
    x = parts["embedding_dropout"](_add_positions(parts, "source", x, mask))
    x = _with_mask(parts["encoder"](x, padding_mask=mask), mask)

    # (b, t) -> (b, t, d)
    target = inputs["decoder_token_ids"]
    target_mask = padding_mask(target)
    y = _add_positions(parts, "target", parts["target_embedding"](target), target_mask)
    y = parts["embedding_dropout"](y)
    y = parts["decoder"](y, x, padding_mask=target_mask, encoder_padding_mask=mask)
    y = _with_mask(y, target_mask)
    # (b, t, d) -> (b, t, v)
    return inputs, parts["output_projection"](y)
