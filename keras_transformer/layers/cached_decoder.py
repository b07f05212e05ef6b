"""Decoder for step-by-step decoding, with a cache."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import keras
from keras import ops

from keras_transformer._arguments import check_kind
from keras_transformer._backend.indexing import dynamic_shape, gather
from keras_transformer._backend.loop import snapshot_weights
from keras_transformer.layers.cached_attention import _AttentionCache, _CachedAttention, _Step
from keras_transformer.layers.decoder import Decoder, DecoderLayer, _shape_description
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.masks import _hide_padding
from keras_transformer.layers.projection import _Linear
from keras_transformer.types import Tensor


class _DecoderCache(NamedTuple):
    """State of a decoder between decoding steps; `()` replaces None, which backend loops cannot hold."""

    self_attention: tuple[_AttentionCache, ...]
    """Keys and values of the decoded positions, one cache per layer."""
    cross_attention: tuple[_AttentionCache, ...]
    """Keys and values of the encoder's output, one cache per layer; empty without an encoder. Values at
    padding are zeros."""
    encoder_padding_mask: Tensor
    """`(b, s)`, True where the source has a token; `()` if no mask is given, or without an encoder."""
    ancestors: Tensor
    """int32 `(b, n, T)`: for each hypothesis and position, index of the hypothesis whose slot it reads there;
    -1 if the position is not yet written."""

    @property
    def beam_size(self) -> int:
        """Number of hypotheses per source, `n`."""
        return int(self.ancestors.shape[1])

    def reorder(self, rows: Tensor) -> "_DecoderCache":
        """Reorder hypotheses: new hypothesis `i` continues old hypothesis `rows[i]`, integers `(b * n,)`."""
        # Keys and values stay in place; `ancestors` selects the slots that each hypothesis reads.
        if self.beam_size == 1:
            return self
        return self._replace(ancestors=_take_hypotheses(self.ancestors, ops.cast(rows, "int32")))

    def grow(self, num_positions: Tensor | int) -> "_DecoderCache":
        """Append unwritten positions."""
        unwritten = ops.full(
            (dynamic_shape(self.ancestors)[0], self.beam_size, num_positions), -1, dtype="int32"
        )
        return self._replace(
            self_attention=tuple(cache.grow(num_positions * self.beam_size) for cache in self.self_attention),
            ancestors=ops.concatenate([self.ancestors, unwritten], axis=2),
        )

    def _write(self, position: Tensor | int) -> "_DecoderCache":
        is_position = ops.equal(ops.arange(dynamic_shape(self.ancestors)[2], dtype="int32"), position)
        # (T,), (n, 1) -> (b, n, T): each hypothesis writes its own slot of the position
        writers = ops.arange(self.beam_size, dtype="int32")[:, None]
        return self._replace(ancestors=ops.where(is_position, writers, self.ancestors))

    def _visible(self) -> Tensor:
        """Return a boolean mask `(b, n, T * n)`, True where a hypothesis may read a cache slot."""
        writers = ops.arange(self.beam_size, dtype="int32")
        # (b, n, T), (n,) -> (b, n, T, n) -> (b, n, T * n)
        is_visible = ops.equal(self.ancestors[..., None], writers)
        batch_size, size, length = dynamic_shape(self.ancestors)
        return ops.reshape(is_visible, (batch_size, size, length * size))


def _take_hypotheses(values: Tensor, rows: Tensor) -> Tensor:
    # (b, n, any) -> (b * n, any) -> (b, n, any); `rows` counts over all sources
    beam_size, size = values.shape[1], dynamic_shape(values)[2]
    return ops.reshape(gather(ops.reshape(values, (-1, size)), rows), (-1, beam_size, size))


class CachedDecoder:
    """Decoder for step-by-step decoding, with cached keys and values.

    Computes one position per step, with the same outputs as one call of the `Decoder` on the whole target.
    Create it before the decoding loop: it uses the weights as they are at that time.

    Args:
        decoder: A built `Decoder`.
        in_place: Whether a step may overwrite the cache passed to it. This avoids copies in TensorFlow
            graphs, but any other reference to the old cache sees the change; use it only if your loop owns
            the cache. Defaults to False.

    Raises:
        TypeError: If `decoder` is not a `Decoder`.
        ValueError: If it is not built.

    Example:
        >>> decoder, source = Decoder(1, 2, 16), keras.ops.ones((1, 5, 8))
        >>> target = keras.ops.ones((1, 3, 8))
        >>> whole = decoder(target, source)
        >>> cached = CachedDecoder(decoder)
        >>> outputs, cache = cached.step(target[:, :1], 0, cached.create_cache(source, None, 3))
        >>> bool(keras.ops.all(keras.ops.isclose(outputs, whole[:, :1], atol=1e-5)))
        True
    """

    Cache: TypeAlias = _DecoderCache
    """State between steps: a named tuple of tensors, for `n` hypotheses per source."""

    def __init__(self, decoder: Decoder, *, in_place: bool = False) -> None:
        check_kind(Decoder, decoder=decoder)
        if not decoder.built:
            raise ValueError(
                f"`decoder` must be built, as by a call. Received: {decoder.name}, without weights."
            )
        self._decoder = decoder
        self._layers = tuple(_CachedLayer(layer, in_place) for layer in decoder.layers)
        uncached = (part for layer in self._layers for part in layer.uncached)
        self._weights = snapshot_weights(decoder.final_normalization, *uncached)

    def create_cache(
        self,
        encoder_output: Tensor | None,
        encoder_padding_mask: Tensor | None,
        max_length: Tensor | int,
        beam_size: int = 1,
        batch_size: Tensor | int | None = None,
    ) -> _DecoderCache:
        """Build an empty target cache, and project the encoder's output once for every layer.

        Args:
            encoder_output: `(b, s, any width)`; None without cross-attention.
            encoder_padding_mask: `(b, s)`; True (1) where the source has a token. Defaults to the Keras mask
                of `encoder_output`.
            max_length: Number of target positions in the cache, `T`.
            beam_size: Number of hypotheses per source, `n`.
            batch_size: Batch size, `b`. Required without `encoder_output`, else must be None.

        Returns:
            The cache for `step`.

        Raises:
            ValueError: If `encoder_output` differs from the decoder's first call in presence or width, or if
                both or neither of `encoder_output` and `batch_size` are given.
        """
        self._decoder.layers[0].check_encoder_output(encoder_output)
        if (encoder_output is None) == (batch_size is None):
            raise ValueError(
                "`batch_size` must be given exactly where `encoder_output` is None. "
                f"Received: batch_size={batch_size}, encoder_output={_shape_description(encoder_output)}."
            )
        sources: tuple[_AttentionCache, ...] = ()
        mask = encoder_padding_mask
        if encoder_output is not None:
            mask = getattr(encoder_output, "_keras_mask", None) if mask is None else mask
            encoder_output = _hide_padding(ops.convert_to_tensor(encoder_output), mask)
            batch_size = dynamic_shape(encoder_output)[0]
            # Computed once for all steps and hypotheses.
            sources = tuple(layer.cross_attention.project(encoder_output, mask) for layer in self._layers)
        caches = (layer.self_attention.create(max_length, batch_size, beam_size) for layer in self._layers)
        ancestors = ops.full((batch_size, beam_size, max_length), -1, dtype="int32")
        # Backend loops can hold nested tensors, but not None.
        mask = () if mask is None else ops.convert_to_tensor(mask)
        return _DecoderCache(tuple(caches), sources, mask, ancestors)

    def step(
        self, inputs: Tensor, position: Tensor | int, cache: _DecoderCache
    ) -> tuple[Tensor, _DecoderCache]:
        """Compute one position of each hypothesis.

        Args:
            inputs: `(b * n, 1, d)`.
            position: Position of the inputs, at least 0 and below `T`.
            cache: Cache of the previous step, or from `create_cache`.

        Returns:
            The outputs `(b * n, 1, d)`, and the cache including this position.

        Raises:
            ValueError: If the position is known to be outside the cache.
        """
        # (b * n, 1, d) -> (b * n, d), the input shape of all cached layers
        x, own = ops.convert_to_tensor(inputs)[:, 0, :], []
        cache = cache._write(position)
        mask = cache.encoder_padding_mask
        step = self._layers[0].self_attention.plan(
            position, cache.self_attention[0], cache._visible(), None if isinstance(mask, tuple) else mask
        )
        sources = cache.cross_attention or (None,) * len(self._layers)
        with keras.StatelessScope(self._weights):
            for layer, target, source in zip(self._layers, cache.self_attention, sources, strict=True):
                x, target = layer.step(x, target, source, step)
                own.append(target)
            x = self._decoder.final_normalization(x)
        return x[:, None, :], cache._replace(self_attention=tuple(own))


class _CachedLayer:
    """`DecoderLayer` for one position at a time."""

    def __init__(self, layer: DecoderLayer, in_place: bool) -> None:
        self._layer = layer
        self.self_attention = _CachedAttention(layer.self_attention, in_place=in_place)
        self.uncached = [layer.self_attention_residual, layer.feed_forward_residual]
        self._feed_forward = _cached_feed_forward(layer.feed_forward)
        if layer.cross_attention is not None:
            self.cross_attention = _CachedAttention(layer.cross_attention, is_causal=False)
            self.uncached.append(layer.cross_attention_residual)

    def step(
        self, x: Tensor, target: _AttentionCache, source: _AttentionCache | None, step: _Step
    ) -> tuple[Tensor, _AttentionCache]:
        """Return the output `(b * n, d)` and the cache."""
        residual = self._layer.self_attention_residual
        attended, target = self.self_attention.step(residual.normalize(x), target, step)
        x = residual(x, attended)
        if source is not None:
            residual = self._layer.cross_attention_residual
            attended, _ = self.cross_attention.step(residual.normalize(x), source, step)
            x = residual(x, attended)
        residual = self._layer.feed_forward_residual
        return residual(x, self._feed_forward(residual.normalize(x))), target


def _cached_feed_forward(layer: FeedForward) -> Callable[[Tensor], Tensor]:
    inner, outer = _Linear(layer.inner), _Linear(layer.outer)
    gate = None if layer.gate is None else _Linear(layer.gate)

    def apply(rows: Tensor) -> Tensor:
        x = layer.activation(inner(rows))
        return outer(x if gate is None else x * gate(rows))

    return apply
