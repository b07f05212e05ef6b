"""The encoder-decoder Transformer, "Attention Is All You Need", Figure 1."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers import DecoderCache, padding_mask
from keras_transformer.models.parts import build_parts, check_options
from keras_transformer.models.presets import preset
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(keras.Model):
    """A Functional model from source and target token ids to logits.

    Padding is read from the ids themselves: 0 is padding, on both sides.

    Args:
        source_vocabulary_size: the number of source ids.
        target_vocabulary_size: the number of target ids, `v`.
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
        norm_first: True for pre-norm, False for the paper's post-norm.
        share_embeddings: whether source and target use one embedding.
        tie_output: whether the logits use the target embedding's table.
        **kwargs: `name` and `dtype` of a Keras model.

    Call arguments:
        inputs: a dict of `encoder_token_ids`, integers `(b, s)`, and
            `decoder_token_ids`, integers `(b, t)`: the target shifted right,
            starting with the start token.

    Returns:
        Logits `(b, t, v)`.

    Raises:
        ValueError: sizes not above zero, heads that do not divide the width,
            rates outside [0, 1), shared embeddings of different vocabularies.

    Example:
        >>> model = Transformer(100, 120, num_layers=1, hidden_dim=8, num_heads=2,
        ...                     intermediate_dim=16)
        >>> source, target = keras.ops.ones((2, 7), "int32"), keras.ops.ones((2, 5), "int32")
        >>> tuple(model({"encoder_token_ids": source, "decoder_token_ids": target}).shape)
        (2, 5, 120)
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        *,
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
        norm_first: bool = False,
        share_embeddings: bool = False,
        tie_output: bool = True,
        **kwargs: Any,
    ) -> None:
        dtype = kwargs.pop("dtype", None)
        config = {
            "source_vocabulary_size": source_vocabulary_size,
            "target_vocabulary_size": target_vocabulary_size,
            "num_layers": num_layers,
            "num_encoder_layers": num_encoder_layers,
            "num_decoder_layers": num_decoder_layers,
            "hidden_dim": hidden_dim,
            "num_heads": num_heads,
            "intermediate_dim": intermediate_dim,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "intermediate_dropout": intermediate_dropout,
            "activation": activation,
            "norm_first": norm_first,
            "share_embeddings": share_embeddings,
            "tie_output": tie_output,
        }
        check_options(config)
        parts = build_parts(config, dtype)
        inputs, outputs = _connect(parts)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.config = config
        for name, part in parts.items():
            setattr(self, name, part)

    @classmethod
    def from_preset(
        cls, name: str, source_vocabulary_size: int, target_vocabulary_size: int, **overrides: Any
    ) -> "Transformer":
        """Make an untrained model of a known size.

        Args:
            name: `tiny`, `small`, `base` or `big`.
            source_vocabulary_size: the number of source ids.
            target_vocabulary_size: the number of target ids.
            **overrides: constructor arguments that replace those of the preset.

        Returns:
            The model.

        Raises:
            ValueError: an unknown preset.
        """
        return cls(source_vocabulary_size, target_vocabulary_size, **{**preset(name), **overrides})

    def encode(self, encoder_token_ids: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Run the encoder alone.

        Args:
            encoder_token_ids: integers `(b, s)`.
            training: whether dropout is on.

        Returns:
            The encoder's output `(b, s, d)` and its padding mask `(b, s)`.
        """
        mask = padding_mask(encoder_token_ids)
        x = self.source_embedding(encoder_token_ids)
        x = self.embedding_dropout(self.position_encoding(x), training=training)
        return self.encoder(x, padding_mask=mask, training=training), mask

    def create_cache(self, encoder_token_ids: Tensor, max_length: int, beam_size: int = 1) -> DecoderCache:
        """Run the encoder, and make room to decode step by step.

        Args:
            encoder_token_ids: integers `(b, s)`.
            max_length: the number of target positions there is room for.
            beam_size: hypotheses for each source, `n`.

        Returns:
            The cache for `decode_step`.
        """
        encoder_output, mask = self.encode(encoder_token_ids)
        return self.decoder.create_cache(encoder_output, mask, max_length, beam_size)

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
        return self.output_projection(x)[:, 0, :], cache

    def attention_scores(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Give every attention map of one teacher-forced pass.

        Args:
            inputs: as for the call.

        Returns:
            A dict of `encoder/layer_{i}/self_attention` `(b, h, s, s)`,
            `decoder/layer_{i}/self_attention` `(b, h, t, t)` and
            `decoder/layer_{i}/cross_attention` `(b, h, t, s)`, from 1.
        """
        source, target = (
            ops.convert_to_tensor(inputs[name]) for name in ("encoder_token_ids", "decoder_token_ids")
        )
        mask = padding_mask(source)
        x = self.position_encoding(self.source_embedding(source))
        x, encoder_scores = self.encoder(x, padding_mask=mask, return_attention_scores=True)
        y = self.position_encoding(self.target_embedding(target))
        _, decoder_scores = self.decoder(
            y,
            x,
            padding_mask=padding_mask(target),
            encoder_padding_mask=mask,
            return_attention_scores=True,
        )
        return {
            **{f"encoder/{name}": scores for name, scores in encoder_scores.items()},
            **{f"decoder/{name}": scores for name, scores in decoder_scores.items()},
        }

    def get_config(self) -> dict[str, Any]:
        activation = keras.activations.serialize(keras.activations.get(self.config["activation"]))
        dtype = keras.saving.serialize_keras_object(self.source_embedding.dtype_policy)
        return {**self.config, "activation": activation, "dtype": dtype, "name": self.name}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> "Transformer":
        config = dict(config)
        config["dtype"] = keras.saving.deserialize_keras_object(config["dtype"])
        return cls(**config)


def _connect(parts: dict[str, Any]) -> tuple[dict[str, Tensor], Tensor]:
    """Connect the layers as Figure 1 does."""
    source = keras.Input((None,), dtype="int32", name="encoder_token_ids")  # (b, s)
    target = keras.Input((None,), dtype="int32", name="decoder_token_ids")  # (b, t)
    source_mask, target_mask = padding_mask(source), padding_mask(target)

    x = parts["position_encoding"](parts["source_embedding"](source))
    x = parts["encoder"](parts["embedding_dropout"](x), padding_mask=source_mask)

    y = parts["position_encoding"](parts["target_embedding"](target))
    y = parts["decoder"](
        parts["embedding_dropout"](y),
        x,
        padding_mask=target_mask,
        encoder_padding_mask=source_mask,
    )
    logits = parts["output_projection"](y)  # (b, t, v)
    return {"encoder_token_ids": source, "decoder_token_ids": target}, logits
