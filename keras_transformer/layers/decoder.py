"""The stack of decoder layers."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.arguments import as_boolean, check_positive, check_width, freeze_parts
from keras_transformer.backend import take_rows
from keras_transformer.layers.block import Block
from keras_transformer.layers.cached_attention import AttentionCache, StepPlan, plan_step
from keras_transformer.types import Shape, Tensor


class DecoderLayerCache(NamedTuple):
    """What a decoder layer keeps between the steps of decoding."""

    self_attention: AttentionCache
    """Keys and values of the target positions so far, a row for each source."""
    encoder_keys: Tensor
    """`(b, h, s, k)`: keys of the encoder's output, a row for each source; `()` without an encoder,
    since the state of a loop has no place for None."""
    encoder_values: Tensor
    """`(b, h, s, k)`: values of the encoder's output, zeros where it is padding; `()` without one."""

    def select(self, rows: Tensor) -> "DecoderLayerCache":
        """Take some sources.

        Args:
            rows: integers `(b',)`, which of the sources.

        Returns:
            The cache of these sources.
        """
        return DecoderLayerCache(
            self.self_attention.select(rows),
            _select(self.encoder_keys, rows),
            _select(self.encoder_values, rows),
        )


class DecoderCache(NamedTuple):
    """What the decoder keeps between the steps of decoding."""

    layers: tuple[DecoderLayerCache, ...]
    """A cache for each layer."""
    encoder_padding_mask: Tensor
    """`(b, s)`, True where the source has a token; `()` where everything is one, or nothing is there."""
    ancestors: Tensor
    """int32 `(b, n, T)`: which hypothesis of the source wrote each position of this one; -1 where
    nothing was written yet."""
    attention_sums: Tensor = ()
    """float32 `(b, n, s)`: how much each source position was attended to so far, the mean over the
    heads of the last layer; `()` where nobody asked."""

    @property
    def beam_size(self) -> int:
        """Hypotheses for each source, `n`."""
        return int(self.ancestors.shape[1])

    def visible(self) -> Tensor:
        """Say which slots of an `AttentionCache` each hypothesis may attend to.

        Returns:
            A boolean tensor `(b, 1, n, T * n)`.
        """
        writers = ops.arange(self.beam_size, dtype="int32")
        is_visible = ops.equal(self.ancestors[..., None], writers)  # (b, n, T, n)
        batch_size, _, length = ops.shape(self.ancestors)
        return ops.reshape(is_visible, (batch_size, 1, self.beam_size, length * self.beam_size))

    def write(self, position: Tensor) -> "DecoderCache":
        """Note that each hypothesis writes a position itself.

        Args:
            position: an integer scalar.

        Returns:
            The cache in which the position is visible.
        """
        is_position = ops.equal(ops.arange(ops.shape(self.ancestors)[2], dtype="int32"), position)
        writers = ops.arange(self.beam_size, dtype="int32")[:, None]
        return self._replace(ancestors=ops.where(is_position, writers, self.ancestors))

    def reorder(self, rows: Tensor) -> "DecoderCache":
        """Take hypotheses in another order; keys and values stay where they are.

        Args:
            rows: integers `(b * n,)`, which old hypothesis each new one continues;
                from the same source as before.

        Returns:
            The reordered cache.
        """
        if self.beam_size == 1:
            return self
        rows = ops.cast(rows, "int32")
        sums = (
            self.attention_sums
            if isinstance(self.attention_sums, tuple)
            else _move(self.attention_sums, rows)
        )
        return self._replace(ancestors=_move(self.ancestors, rows), attention_sums=sums)

    def select(self, rows: Tensor) -> "DecoderCache":
        """Take some sources with all their hypotheses.

        Args:
            rows: integers `(b',)`, which of the sources.

        Returns:
            The cache of these sources.
        """
        return self._replace(
            layers=tuple(layer.select(rows) for layer in self.layers),
            encoder_padding_mask=_select(self.encoder_padding_mask, rows),
            ancestors=ops.take(self.ancestors, rows, axis=0),
            attention_sums=_select(self.attention_sums, rows),
        )

    def grow(self, num_positions: Tensor | int) -> "DecoderCache":
        """Make room for more positions.

        Args:
            num_positions: how many more.

        Returns:
            The longer cache.
        """
        size = self.beam_size
        layers = tuple(
            layer._replace(self_attention=layer.self_attention.grow(num_positions, size))
            for layer in self.layers
        )
        unwritten = ops.full((ops.shape(self.ancestors)[0], size, num_positions), -1, dtype="int32")
        return self._replace(layers=layers, ancestors=ops.concatenate([self.ancestors, unwritten], axis=2))


def _move(values: Tensor, rows: Tensor) -> Tensor:
    """Take hypotheses of `(b, n, any)`, numbered over all sources."""
    beam_size, size = values.shape[1], ops.shape(values)[2]
    moved = take_rows(ops.reshape(values, (-1, size)), rows)
    return ops.reshape(moved, (-1, beam_size, size))


def _select(part: Tensor, rows: Tensor) -> Tensor:
    return part if isinstance(part, tuple) else ops.take(part, rows, axis=0)


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
