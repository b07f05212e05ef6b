"""One layer of the decoder: the right half of Figure 1."""

from typing import NamedTuple

import keras
from keras import ops

from keras_transformer.layers.attention_cache import AttentionCache
from keras_transformer.layers.block import Block
from keras_transformer.layers.masks import combine_masks
from keras_transformer.types import Shape, Tensor


class DecoderLayerCache(NamedTuple):
    """What a decoder layer keeps between the steps of decoding."""

    self_attention: AttentionCache
    """Keys and values of the target positions so far, a row for each hypothesis."""
    encoder_keys: Tensor
    """`(b, s, h, k)`: keys of the encoder's output, a row for each source."""
    encoder_values: Tensor
    """`(b, s, h, k)`: values of the encoder's output."""

    def reorder(self, rows: Tensor) -> "DecoderLayerCache":
        """Take hypotheses in another order; what belongs to the source stays.

        Args:
            rows: integers, which old hypothesis each new one continues; from
                the same source as before.

        Returns:
            The reordered cache.
        """
        return self._replace(self_attention=self.self_attention.reorder(rows))


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(Block):
    """Causal self-attention, cross-attention, then a feed-forward network.

    "Attention Is All You Need", section 3.1. In cross-attention the queries
    come from the decoder, keys and values from the encoder's final output,
    which may have another length and another width. The constructor's
    arguments are those of `Block`.

    Call arguments:
        inputs: `(b, t, d)`.
        encoder_output: `(b, s, any width)`.
        padding_mask: `(b, t)`, True (1) where the target has a token.
        encoder_padding_mask: `(b, s)`, True (1) where the source has a token.
        attention_mask: of the self-attention, besides the causal one; `(t, t)`,
            `(b, t, t)`, `(b, 1, t, t)` or `(b, h, t, t)`.
        return_attention_scores: whether the scores are returned too.
        training: whether dropout is on.

    Returns:
        `(b, t, d)`; with `return_attention_scores` a pair of that and
        `{"self_attention": (b, h, t, t), "cross_attention": (b, h, t, s)}`.

    Raises:
        ValueError: heads that do not divide the width; see also `Block`.
    """

    def build(self, inputs_shape: Shape, encoder_output_shape: Shape) -> None:
        self.self_attention = self._attention("self_attention", inputs_shape, inputs_shape, self.positions)
        self.self_attention_residual = self._residual("self_attention_residual", inputs_shape)
        self.cross_attention = self._attention("cross_attention", inputs_shape, encoder_output_shape)
        self.cross_attention_residual = self._residual("cross_attention_residual", inputs_shape)
        self.feed_forward = self._feed_forward("feed_forward", inputs_shape)
        self.feed_forward_residual = self._residual("feed_forward_residual", inputs_shape)

    def call(
        self,
        inputs: Tensor,
        encoder_output: Tensor,
        padding_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        x = self.self_attention_residual.before(inputs)
        attended, self_scores = self._attend(
            self.self_attention,
            x,
            x,
            attention_mask=attention_mask,
            padding_mask=padding_mask,
            use_causal_mask=True,
            need_scores=return_attention_scores,
            training=training,
        )
        x = self.self_attention_residual(inputs, attended, training=training)
        attended, cross_scores = self._attend(
            self.cross_attention,
            self.cross_attention_residual.before(x),
            encoder_output,
            padding_mask=encoder_padding_mask,
            need_scores=return_attention_scores,
            training=training,
        )
        x = self.cross_attention_residual(x, attended, training=training)
        transformed = self.feed_forward(self.feed_forward_residual.before(x), training=training)
        x = self.feed_forward_residual(x, transformed, training=training)
        scores = {"self_attention": self_scores, "cross_attention": cross_scores}
        return (x, scores) if return_attention_scores else x

    def create_cache(self, encoder_output: Tensor, max_length: int, beam_size: int = 1) -> DecoderLayerCache:
        """Project the encoder's output once, and make room for the target.

        Args:
            encoder_output: `(b, s, any width)`.
            max_length: the number of target positions there is room for.
            beam_size: hypotheses for each source, `n`.

        Returns:
            The cache for `step`.
        """
        num_rows = ops.shape(encoder_output)[0] * beam_size
        keys, values = self.cross_attention.project_key_value(encoder_output)
        return DecoderLayerCache(self.self_attention.create_cache(max_length, num_rows), keys, values)

    def step(
        self,
        inputs: Tensor,
        cache: DecoderLayerCache,
        position: Tensor,
        encoder_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, DecoderLayerCache]:
        """Compute one position; the same numbers as `call` over the whole target.

        Args:
            inputs: `(b * n, 1, d)`, the hypotheses of a source side by side.
            cache: from `create_cache` or the step before.
            position: an integer scalar.
            encoder_padding_mask: `(b, s)`, True (1) where the source has a token.

        Returns:
            `(b * n, 1, d)` and the cache with this position written.
        """
        attended, self_cache = self.self_attention.step(
            self.self_attention_residual.before(inputs), cache.self_attention, position
        )
        x = self.self_attention_residual(inputs, attended, training=False)
        attended = self._attend_to_encoder(
            self.cross_attention_residual.before(x), cache, encoder_padding_mask
        )
        x = self.cross_attention_residual(x, attended, training=False)
        transformed = self.feed_forward(self.feed_forward_residual.before(x), training=False)
        x = self.feed_forward_residual(x, transformed, training=False)
        return x, cache._replace(self_attention=self_cache)

    def compute_output_shape(self, inputs_shape: Shape, encoder_output_shape: Shape) -> Shape:
        return tuple(inputs_shape)

    def _attend_to_encoder(
        self, x: Tensor, cache: DecoderLayerCache, encoder_padding_mask: Tensor | None
    ) -> Tensor:
        """Let the hypotheses of one source share its keys, as if they were its time steps."""
        hidden_dim, num_sources = x.shape[-1], ops.shape(cache.encoder_keys)[0]
        x = ops.reshape(x, (num_sources, -1, hidden_dim))  # (b, n, d)
        mask = combine_masks(padding_mask=encoder_padding_mask)
        attended, _ = self.cross_attention.attend(
            x, cache.encoder_keys, cache.encoder_values, mask, training=False
        )
        return ops.reshape(attended, (-1, 1, hidden_dim))  # (b * n, 1, d)
