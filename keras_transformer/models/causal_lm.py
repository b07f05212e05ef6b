"""Decoder-only language model."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.cached_decoder import CachedDecoder
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.masks import padding_mask
from keras_transformer.layers.token_embedding import OutputProjection
from keras_transformer.models.config import _CausalConfig
from keras_transformer.models.configured_model import ConfiguredModel, Step
from keras_transformer.models.decoding_step import _DecodingStep
from keras_transformer.models.parts import Parts, _add_positions, _embedding, _input_parts, _with_mask
from keras_transformer.models.source import _mask_ids
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class CausalLM(ConfiguredModel):
    """Decoder-only language model, from token ids to the logits of the next token.

    A Functional model of decoder layers without cross-attention, as in Radford et al., "Improving Language
    Understanding by Generative Pre-Training" (2018). Token id 0 is padding.

    Args:
        vocabulary_size: Number of token ids, `v`.
        **options: `name` and `dtype` of a Keras model, and the options of `TransformerConfig`, except
            `share_embeddings`, `share_positions` and those with `source`, `target`, `encoder` or `decoder` in
            the name.

    Call arguments:
        token_ids: Integers `(b, t)`, beginning with the start token.
        mask: `(b, t)`; True (1) for tokens, False (0) for positions to treat as padding, in addition to those
            with id 0.

    Returns:
        Logits `(b, t, v)` of the next token at each position.

    Raises:
        TypeError: If an option is unknown or has the wrong type.
        ValueError: If an option is out of its range.

    Example:
        >>> model = CausalLM(100, num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16)
        >>> tuple(model(keras.ops.ones((2, 5), "int32")).shape)
        (2, 5, 100)
    """

    def __init__(self, vocabulary_size: int, **options: Any) -> None:
        config, others = _CausalConfig.split(type(self), options, vocabulary_size=vocabulary_size)
        dtype = others.pop("dtype", None)
        parts = _parts(config, dtype)
        inputs, outputs = _connect(parts)
        super().__init__(inputs=inputs, outputs=outputs, **others)
        self._store_config(config, parts)

    def _complete(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return inputs if mask is None else _mask_ids(inputs, mask)

    def start_decoding(
        self,
        inputs: Tensor,
        max_length: Tensor | int,
        beam_size: int = 1,
        *,
        padding_mask: Tensor | None = None,
        in_place: bool = False,
    ) -> tuple[Step[CachedDecoder.Cache], CachedDecoder.Cache]:
        """Write the prompts to a cache and return the function that decodes step by step.

        Args:
            inputs: Prompts, integers `(b, p)`, all of one length and without padding. They usually begin with
                the start token.
            max_length: Number of positions to decode, counted from the last prompt token.
            beam_size: Number of hypotheses per prompt, `n`.
            padding_mask: Must be None; prompts cannot be padded.
            in_place: Whether a step may overwrite the cache passed to it; see `Transformer.start_decoding`.

        Returns:
            `step`, and the cache of all prompt tokens except the last one. The last prompt token has position
            0. `step(token_ids (b * n,), position, cache)` returns the logits `(b * n, v)` of the token after
            `position`, and the cache including `position`.

        Raises:
            ValueError: If `padding_mask` is given.
        """
        if padding_mask is not None:
            raise ValueError(
                f"`padding_mask` needs a model with an encoder. Received: padding_mask={padding_mask}."
            )
        prompt_ids = ops.convert_to_tensor(inputs)
        last = prompt_ids.shape[1] - 1
        # (b, p) -> (b * n, p), with the hypotheses of a prompt in adjacent rows
        rows = ops.repeat(prompt_ids, beam_size, axis=0)
        step = _DecodingStep(self, "token", in_place=in_place)
        cache = step.decoder.create_cache(None, None, last, beam_size, batch_size=ops.shape(prompt_ids)[0])
        # One position at a time. The last prompt token is left to the search, as its first input.
        for position in range(last):
            _, cache = step(rows[:, position], position, cache)

        def step_from_last(
            token_ids: Tensor, position: Tensor, cache: CachedDecoder.Cache
        ) -> tuple[Tensor, CachedDecoder.Cache]:
            # A search counts positions from the last prompt token.
            return step(token_ids, position + last, cache)

        return step_from_last, cache.grow(max_length)

    def attention_scores(self, token_ids: Tensor) -> dict[str, Tensor]:
        """Return the attention scores of every layer.

        Args:
            token_ids: Integers `(b, t)`.

        Returns:
            A dict of `decoder/layer_{i}/self_attention` to `(b, h, t, t)`. `i` counts from 1.
        """
        token_ids = ops.convert_to_tensor(token_ids)
        mask = padding_mask(token_ids)
        x = _add_positions(self, "token", self.token_embedding(token_ids), mask)
        scores = self.decoder.attention_scores(x, padding_mask=mask)
        return {f"decoder/{name}": scores[name] for name in scores}


def _parts(config: _CausalConfig, dtype: object) -> Parts:
    embedding = _embedding(config, config.vocabulary_size, dtype, "token_embedding")
    decoder = Decoder(config.num_layers, **config.stack_options(), dtype=dtype, name="decoder")
    return {
        "token_embedding": embedding,
        **_input_parts(config, dtype, token=decoder),
        "decoder": decoder,
        "output_projection": OutputProjection(
            config.vocabulary_size,
            embedding=embedding if config.tie_output else None,
            use_bias=config.output_bias,
            dtype=dtype,
            name="output_projection",
        ),
    }


def _connect(parts: Parts) -> tuple[Tensor, Tensor]:
    """Connect the layers as in the right half of Figure 1, without cross-attention."""
    # (b, t) -> (b, t, d) -> (b, t, v)
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    mask = padding_mask(token_ids)
    x = _add_positions(parts, "token", parts["token_embedding"](token_ids), mask)
    x = _with_mask(parts["decoder"](parts["embedding_dropout"](x), padding_mask=mask), mask)
    return token_ids, parts["output_projection"](x)
