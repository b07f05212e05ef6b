"""The stack of decoder layers."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.block import Block
from keras_transformer.layers.decoder_cache import DecoderCache
from keras_transformer.layers.decoder_layer import DecoderLayer
from keras_transformer.layers.step_plan import plan_step
from keras_transformer.layers.validation import check_positive, freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(Block):
    """`num_layers` decoder layers, each attending to the same encoder output.

    A pre-norm stack ends with a normalisation. A stack that is built without
    an encoder's output has no cross-attention: that of a decoder-only model.

    Args:
        num_layers: the number of layers.
        num_heads: see `Block`, as for the other arguments.
        intermediate_dim: see `Block`.
        **kwargs: the options of `Block`.

    Call arguments:
        inputs: `(b, t, d)`.
        encoder_output: `(b, s, any width)`; None without cross-attention.
        padding_mask: `(b, t)`, True (1) where the target has a token.
        encoder_padding_mask: `(b, s)`, True (1) where the source has a token.
        attention_mask: of the self-attention of every layer; see `DecoderLayer`.
        cross_attention_mask: of the cross-attention of every layer; likewise.
        return_attention_scores: whether the scores are returned too.
        training: whether dropout is on.

    Returns:
        `(b, t, d)`; with `return_attention_scores` a pair of that and a dict
        of `layer_{i}/self_attention` and `layer_{i}/cross_attention`, from 1,
        to scores `(b, h, t, t)` and `(b, h, t, s)`.

    Raises:
        ValueError: see `Block` and `DecoderLayer`.
    """

    def __init__(self, num_layers: int, num_heads: int, intermediate_dim: int, **kwargs: Any) -> None:
        super().__init__(num_heads, intermediate_dim, **kwargs)
        check_positive(num_layers=num_layers)
        self.num_layers = num_layers

    def build(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> None:
        self.layers = []
        for number in range(1, self.num_layers + 1):
            layer = DecoderLayer(**self.block_options(), dtype=self.dtype_policy, name=f"layer_{number}")
            layer.build(inputs_shape, encoder_output_shape)
            self.layers.append(layer)
        self.final_normalization = self._final_normalization(inputs_shape)
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
        x, all_scores = inputs, {}
        for layer in self.layers:
            x, scores = self._attend(
                layer,
                x,
                encoder_output,
                padding_mask=padding_mask,
                encoder_padding_mask=encoder_padding_mask,
                attention_mask=attention_mask,
                cross_attention_mask=cross_attention_mask,
                need_scores=return_attention_scores,
                training=training,
            )
            all_scores.update({f"{layer.name}/{name}": s for name, s in (scores or {}).items()})
        x = self.final_normalization(x)
        return (x, all_scores) if return_attention_scores else x

    def create_cache(
        self,
        encoder_output: Tensor | None,
        encoder_padding_mask: Tensor | None,
        max_length: Tensor | int,
        beam_size: int = 1,
        batch_size: Tensor | int | None = None,
        track_attention: bool = False,
    ) -> DecoderCache:
        """Project the encoder's output once for every layer, and make room for the target.

        Args:
            encoder_output: `(b, s, any width)`; None without cross-attention.
            encoder_padding_mask: `(b, s)`, True (1) where the source has a
                token. If None, the Keras mask of the output is read.
            max_length: the number of target positions there is room for.
            beam_size: hypotheses for each source, `n`.
            batch_size: rows, `b`; given exactly where `encoder_output` is None.
            track_attention: whether `attention_sums` are kept, for a coverage penalty.

        Returns:
            The cache for `step`.

        Raises:
            ValueError: see `DecoderLayer.create_cache`.
        """
        mask = encoder_padding_mask
        if mask is None:
            mask = getattr(encoder_output, "_keras_mask", None)
        caches = tuple(
            layer.create_cache(encoder_output, max_length, beam_size, batch_size, mask)
            for layer in self.layers
        )
        sums: Tensor = ()
        if encoder_output is not None:
            batch_size, source_length = ops.shape(encoder_output)[:2]
            sums = ops.zeros((batch_size, beam_size, source_length), "float32") if track_attention else ()
        ancestors = ops.full((batch_size, beam_size, max_length), -1, dtype="int32")
        return DecoderCache(caches, () if mask is None else mask, ancestors, sums)

    def step(self, inputs: Tensor, cache: DecoderCache, position: Tensor) -> tuple[Tensor, DecoderCache]:
        """Compute one position; the same numbers as `call` over the whole target.

        Args:
            inputs: `(b * n, 1, d)`, the hypotheses of a source side by side.
            cache: from `create_cache` or the step before.
            position: an integer scalar.

        Returns:
            `(b * n, 1, d)` and the cache with this position written.
        """
        cache = cache.write(position)
        x, layer_caches, scores = inputs, [], None
        mask = None if isinstance(cache.encoder_padding_mask, tuple) else cache.encoder_padding_mask
        first = cache.layers[0].self_attention
        plan = plan_step(first, position, cache.visible(), self.num_heads, mask)
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            x, layer_cache, scores = layer.planned_step(x, layer_cache, plan)
            layer_caches.append(layer_cache)
        cache = cache._replace(layers=tuple(layer_caches))
        if not isinstance(cache.attention_sums, tuple):
            sums = cache.attention_sums + ops.mean(scores, axis=1)  # (b, n, s)
            cache = cache._replace(attention_sums=sums)
        return self.final_normalization(x), cache

    def compute_output_shape(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers}
