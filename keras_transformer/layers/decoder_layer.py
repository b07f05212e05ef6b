"""One layer of the decoder: the right half of Figure 1."""

import keras
from keras import ops

from keras_transformer.layers.block import Block
from keras_transformer.layers.decoder_cache import DecoderLayerCache
from keras_transformer.layers.masks import as_boolean
from keras_transformer.layers.step_plan import StepPlan, plan_step
from keras_transformer.layers.validation import check_width, freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(Block):
    """Causal self-attention, cross-attention, then a feed-forward network.

    "Attention Is All You Need", section 3.1. In cross-attention the queries
    come from the decoder, keys and values from the encoder's final output,
    which may have another length and another width. A layer that is built
    without an encoder's output has no cross-attention: the layer of a
    decoder-only model. The constructor's arguments are those of `Block`.

    Call arguments:
        inputs: `(b, t, d)`.
        encoder_output: `(b, s, any width)`; None without cross-attention.
        padding_mask: `(b, t)`, True (1) where the target has a token.
        encoder_padding_mask: `(b, s)`, True (1) where the source has a token.
        attention_mask: of the self-attention, besides the causal one; `(t, t)`,
            `(b, t, t)`, `(b, 1, t, t)` or `(b, h, t, t)`.
        cross_attention_mask: of the cross-attention, likewise over `(t, s)`.
        return_attention_scores: whether the scores are returned too.
        training: whether dropout is on.

    Returns:
        `(b, t, d)`; with `return_attention_scores` a pair of that and
        `{"self_attention": (b, h, t, t), "cross_attention": (b, h, t, s)}`.

    Raises:
        ValueError: heads that do not divide the width; an encoder's output
            where the layer was built without one, or none where it was built
            with one, or of another width; see also `Block`.

    Example:
        >>> x, memory = keras.ops.zeros((1, 3, 8)), keras.ops.zeros((1, 5, 16))
        >>> tuple(DecoderLayer(2, 16)(x, memory).shape)
        (1, 3, 8)
        >>> tuple(DecoderLayer(2, 16)(x).shape)
        (1, 3, 8)
    """

    def build(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> None:
        self.self_attention = self._attention("self_attention", inputs_shape, inputs_shape, self.positions)
        self.self_attention_residual = self._residual("self_attention_residual", inputs_shape)
        self.cross_attention = None
        if encoder_output_shape is not None:
            self.cross_attention = self._attention("cross_attention", inputs_shape, encoder_output_shape)
            self.cross_attention_residual = self._residual("cross_attention_residual", inputs_shape)
        self.feed_forward = self._feed_forward("feed_forward", inputs_shape)
        self.feed_forward_residual = self._residual("feed_forward_residual", inputs_shape)
        freeze_parts(self)

    def call(
        self,
        inputs: Tensor,
        encoder_output: Tensor | None = None,
        padding_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        self._check_encoder_output(encoder_output)
        if cross_attention_mask is not None and self.cross_attention is None:
            raise ValueError(
                "`cross_attention_mask` must be None without cross-attention. "
                f"Received: cross_attention_mask={_described(cross_attention_mask)}."
            )
        inputs = self._vectors(inputs, self.self_attention)
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
        scores = {"self_attention": self_scores}
        if self.cross_attention is not None:
            attended, scores["cross_attention"] = self._attend(
                self.cross_attention,
                self.cross_attention_residual.before(x),
                encoder_output,
                attention_mask=cross_attention_mask,
                padding_mask=encoder_padding_mask,
                need_scores=return_attention_scores,
                training=training,
            )
            x = self.cross_attention_residual(x, attended, training=training)
        transformed = self.feed_forward(self.feed_forward_residual.before(x), training=training)
        x = self.feed_forward_residual(x, transformed, training=training)
        return (x, scores) if return_attention_scores else x

    def create_cache(
        self,
        encoder_output: Tensor | None,
        max_length: Tensor | int,
        beam_size: int = 1,
        batch_size: Tensor | int | None = None,
        encoder_padding_mask: Tensor | None = None,
    ) -> DecoderLayerCache:
        """Project the encoder's output once, and make room for the target.

        Args:
            encoder_output: `(b, s, any width)`; None without cross-attention.
            max_length: the number of target positions there is room for.
            beam_size: hypotheses for each source, `n`.
            batch_size: rows, `b`; given exactly where `encoder_output` is None.
            encoder_padding_mask: `(b, s)`, True (1) where the source has a token;
                given here and to `step`. The Keras mask of the output is read
                by `Decoder.create_cache` alone.

        Returns:
            The cache for `step`.

        Raises:
            ValueError: an encoder's output where the layer was built without
                one, or the other way round, or of another width; both an output
                and a batch size.
        """
        self._check_encoder_output(encoder_output)
        if (encoder_output is None) == (batch_size is None):
            raise ValueError(
                "`batch_size` must be given exactly where `encoder_output` is None. "
                f"Received: batch_size={batch_size}, encoder_output={_described(encoder_output)}."
            )
        keys: Tensor = ()
        values: Tensor = ()
        self.self_attention.prepare_steps()
        if self.cross_attention is not None:
            self.cross_attention.prepare_steps()
            keys, values = self.cross_attention.project_key_value(encoder_output)
            batch_size = ops.shape(keys)[0]
            if encoder_padding_mask is not None:
                # A source of nothing but padding then gives zeros, whatever the weights are.
                is_token = as_boolean(encoder_padding_mask, "encoder_padding_mask")[:, :, None, None]
                values = ops.where(is_token, values, ops.zeros_like(values))
            keys, values = (ops.transpose(part, (0, 2, 1, 3)) for part in (keys, values))
        cache = self.self_attention.create_cache(max_length, batch_size, beam_size)
        return DecoderLayerCache(cache, keys, values)

    def step(
        self,
        inputs: Tensor,
        cache: DecoderLayerCache,
        position: Tensor,
        encoder_padding_mask: Tensor | None = None,
        visible: Tensor | None = None,
    ) -> tuple[Tensor, DecoderLayerCache]:
        """Compute one position; the same numbers as `call` over the whole target.

        Args:
            inputs: `(b * n, 1, d)`, the hypotheses of a source side by side.
            cache: from `create_cache` or the step before.
            position: an integer scalar.
            encoder_padding_mask: `(b, s)`, True (1) where the source has a token.
            visible: see `MultiHeadAttention.step`.

        Returns:
            `(b * n, 1, d)` and the cache with this position written.
        """
        if visible is None:
            visible = cache.self_attention.own_slots(inputs.shape[0], position)
        plan = plan_step(cache.self_attention, position, visible, self.num_heads, encoder_padding_mask)
        return self.planned_step(inputs, cache, plan)[:2]

    def planned_step(
        self, inputs: Tensor, cache: DecoderLayerCache, plan: StepPlan
    ) -> tuple[Tensor, DecoderLayerCache, Tensor | None]:
        """Do what `step` does, with what other layers need as well already computed.

        Args:
            inputs: `(b * n, 1, d)`, the hypotheses of a source side by side.
            cache: from `create_cache` or the step before.
            plan: the step.

        Returns:
            `(b * n, 1, d)`, the cache with this position written, and the scores of the
            cross-attention `(b, h, n, s)`, None without one.
        """
        attended, self_cache = self.self_attention.planned_step(
            self.self_attention_residual.before(inputs), cache.self_attention, plan
        )
        x = self.self_attention_residual(inputs, attended, training=False)
        scores = None
        if self.cross_attention is not None:
            attended, scores = self.cross_attention.attend_step(
                self.cross_attention_residual.before(x),
                cache.encoder_keys,
                cache.encoder_values,
                plan.encoder_bias,
                plan,
            )
            x = self.cross_attention_residual(x, attended, training=False)
        transformed = self.feed_forward(self.feed_forward_residual.before(x), training=False)
        x = self.feed_forward_residual(x, transformed, training=False)
        return x, cache._replace(self_attention=self_cache), scores

    def compute_output_shape(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> Shape:
        return tuple(inputs_shape)

    def _check_encoder_output(self, encoder_output: Tensor | None) -> None:
        """Refuse what the layer was not built for, and another width."""
        if (encoder_output is None) != (self.cross_attention is None):
            wanted = "None" if self.cross_attention is None else "a tensor (b, s, any width)"
            raise ValueError(
                f"`encoder_output` must be {wanted}, as when the layer was built. "
                f"Received: encoder_output={_described(encoder_output)}."
            )
        if self.cross_attention is not None:
            check_width(self.cross_attention.value_kernel.shape[0], encoder_output=encoder_output)


def _described(tensor: Tensor | None) -> str:
    return "None" if tensor is None else f"a tensor of shape {tuple(tensor.shape)}"
