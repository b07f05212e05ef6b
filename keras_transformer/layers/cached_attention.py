"""Attention for decoding: one position at a time, with cached keys and values."""

from typing import NamedTuple

import keras
from keras import ops

from keras_transformer._arguments import as_boolean, as_position
from keras_transformer._backend.attention import attend_step
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer._backend.loop import PositionBuffer, snapshot_weights
from keras_transformer.layers.masks import combine_masks
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.projection import _Linear
from keras_transformer.layers.rotary_embedding import _Rotation
from keras_transformer.types import MINUS_INFINITY, Tensor


class _AttentionCache(NamedTuple):
    """Projected keys and values of one attention.

    The `n` hypotheses of a source share one row: slot `t * n + j` holds position `t` of hypothesis `j`.
    Reordering hypotheses therefore moves no keys or values; a mask selects the slots that a hypothesis reads.
    """

    keys: Tensor
    """`(b, g, T * n, k)`, zeros in unwritten slots; `(b, g, s, k)` in cross-attention."""
    values: Tensor
    """Same shape as the keys, but the width may differ."""

    def grow(self, num_slots: Tensor | int) -> "_AttentionCache":
        """Append empty slots."""
        return _AttentionCache(*(_append_slots(part, num_slots) for part in self))


def _append_slots(buffer: Tensor, num_slots: Tensor | int) -> Tensor:
    batch_size, num_heads, _, width = dynamic_shape(buffer)
    empty = PositionBuffer.make((batch_size, num_heads, num_slots, width), buffer.dtype)
    return ops.concatenate([buffer, empty], axis=2)


class _Step(NamedTuple):
    """Data of one decoding step, the same for all layers."""

    position: Tensor | int
    """Position to compute, `p`, an integer scalar."""
    num_hypotheses: int
    """Number of hypotheses per source, `n`."""
    bias: Tensor
    """float32 `(b, n, 1, 1, T * n)`, added to the logits of self-attention. The first size may be 1."""
    slots: Tensor
    """Slots of the position, from `PositionBuffer.slots`."""
    encoder_bias: Tensor | None = None
    """float32 `(b, 1, 1, 1, s)`, added to the logits of cross-attention; None without a padding mask."""
    rotation: _Rotation | None = None
    """Rotation of the position; None without rotary positions."""


def _mask_to_bias(mask: Tensor) -> Tensor:
    # The logit bias of a mask: 0 where the key is visible, else a number that absorbs every logit.
    zero, lowest = (ops.convert_to_tensor(value, "float32") for value in (0.0, MINUS_INFINITY))
    return ops.where(mask, zero, lowest)


def _check_position(position: Tensor | int, num_slots: Tensor | int, num_hypotheses: int) -> None:
    # Checked where the position is known: JAX would ignore a write past the end.
    if not isinstance(position, int) or not isinstance(num_slots, int):
        return
    max_length = num_slots // num_hypotheses
    if not 0 <= position < max_length:
        raise ValueError(
            f"`position` must be at least 0 and below max_length={max_length}. Received: position={position}."
        )


class _CachedAttention:
    """`MultiHeadAttention` for one position at a time, with the same outputs.

    Created before the decoding loop: it copies the current weights and joins projections of the same input
    into one matrix. Causal self-attention writes each position to its cache; cross-attention reads a cache
    made by `project`. See `CachedDecoder` for `in_place`.
    """

    def __init__(
        self, attention: MultiHeadAttention, *, is_causal: bool = True, in_place: bool = False
    ) -> None:
        self._attention = attention
        self._is_causal = is_causal
        self._in_place = in_place
        self._num_groups = attention.num_key_value_heads or attention.num_heads
        self._num_shared = attention.num_heads // self._num_groups
        self._value_dim = attention.value_dim or attention.key_dim
        names = ["query", *(["key", "value"] if is_causal else []), *(["gate"] if attention.use_gate else [])]
        # One product instead of three: query, key and value of a position have the same input.
        self._inputs = _Linear(*(getattr(attention, f"{name}_dense") for name in names))
        self._output = _Linear(attention.output_dense)
        self._source_projections = [] if is_causal else [attention.key_dense, attention.value_dense]
        self._weights = snapshot_weights(attention.position_bias, *self._source_projections)

    def plan(
        self,
        position: Tensor | int,
        cache: _AttentionCache,
        visible: Tensor,
        encoder_padding_mask: Tensor | None = None,
    ) -> _Step:
        """Return the `_Step` of `position`, from the self-attention cache of any layer.

        `visible` `(b, n, T * n)`, whose first size may be 1, is True where a hypothesis may read a slot;
        `encoder_padding_mask` `(b, s)` is True where the source has a token.
        """
        num_hypotheses, position = int(visible.shape[1]), as_position(position, "position")
        _check_position(position, cache.keys.shape[2], num_hypotheses)
        encoder_bias = None
        if encoder_padding_mask is not None:
            # (b, s) -> (b, 1, 1, s) -> (b, 1, 1, 1, s)
            encoder_bias = _mask_to_bias(combine_masks(padding_mask=encoder_padding_mask))[:, None]
        is_rotary = self._attention.positions == "rotary"
        return _Step(
            position,
            num_hypotheses,
            # (b, n, T * n) -> (b, n, 1, 1, T * n)
            _mask_to_bias(visible)[:, :, None, None, :],
            PositionBuffer.slots(position, cache.keys, num_hypotheses),
            encoder_bias,
            _Rotation.of(1, self._attention.key_dim, start=position) if is_rotary else None,
        )

    def create(
        self, max_length: Tensor | int, batch_size: Tensor | int, num_hypotheses: int = 1
    ) -> _AttentionCache:
        """Build an empty self-attention cache for `T` positions of `n` hypotheses."""
        sizes = batch_size, self._num_groups, max_length * num_hypotheses
        dtype = self._attention.compute_dtype
        widths = self._attention.key_dim, self._value_dim
        return _AttentionCache(*(PositionBuffer.make((*sizes, width), dtype) for width in widths))

    def project(self, value: Tensor, padding_mask: Tensor | None) -> _AttentionCache:
        """Return the keys and values of an encoder's output `(b, s, d)`, for cross-attention."""
        with keras.StatelessScope(self._weights):
            # Keras's quantized call would round the inputs; the decoding steps do not.
            # (b, s, d) -> (b, s, g, k)
            keys, values = (
                each.call(ops.cast(value, each.compute_dtype)) for each in self._source_projections
            )
        if padding_mask is not None:
            # Attention to a source that is all padding then returns zeros, whatever its weights are.
            is_token = as_boolean(padding_mask, "encoder_padding_mask")[:, :, None, None]
            values = ops.where(is_token, values, ops.zeros_like(values))
        # (b, s, g, k) -> (b, g, s, k), shared by all hypotheses of a source
        return _AttentionCache(*(ops.transpose(part, (0, 2, 1, 3)) for part in (keys, values)))

    def step(self, inputs: Tensor, cache: _AttentionCache, step: _Step) -> tuple[Tensor, _AttentionCache]:
        """Attend from one position of each hypothesis; return the outputs `(b * n, d)` and the cache.

        Args:
            inputs: `(b * n, d)`.
            cache: Keys and values `(b, g, m, k)`.
            step: From `plan`.
        """
        attention, groups = self._attention, (-1, step.num_hypotheses, self._num_groups)
        query, *others = self._inputs.parts(inputs)
        # (b * n, h * k) -> (b, n, g, r, k)
        query = self._rotate(ops.reshape(query, (*groups, self._num_shared, attention.key_dim)), step)
        bias = step.encoder_bias
        if self._is_causal:
            key, value, *others = others
            # (b * n, g * k) -> (b, n, g, k), written to the slots of the position
            key = self._rotate(ops.reshape(key, (*groups, attention.key_dim)), step)
            value = ops.reshape(value, (*groups, self._value_dim))
            pairs = zip(cache, (key, value), strict=True)
            cache = _AttentionCache(
                *(PositionBuffer.write(*pair, step.slots, in_place=self._in_place) for pair in pairs)
            )
            bias = self._self_bias(query, step, dynamic_shape(cache.keys)[2])
        heads = attend_step(query, *cache, bias)
        # (b, n, g, r, k) -> (b * n, h * k)
        rows = ops.reshape(heads, (-1, attention.num_heads * self._value_dim))
        if others:
            rows = rows * ops.sigmoid(others[0])
        return self._output(rows), cache

    def _rotate(self, heads: Tensor, step: _Step) -> Tensor:
        return heads if step.rotation is None or not self._is_causal else step.rotation(heads)

    def _self_bias(self, query: Tensor, step: _Step, num_slots: Tensor | int) -> Tensor:
        # All layers share the mask; the window and the position bias belong to this layer.
        bias, window = step.bias, self._attention.sliding_window
        if window is not None:
            distances = step.position - ops.arange(num_slots, dtype="int32") // step.num_hypotheses
            bias = ops.where(distances < window, bias, ops.convert_to_tensor(MINUS_INFINITY, "float32"))
        position_bias = self._attention.position_bias
        if position_bias is not None:
            # (b, n, g, r, k) -> (b * n, 1, h, k)
            heads = ops.reshape(query, (-1, 1, self._attention.num_heads, self._attention.key_dim))
            with keras.StatelessScope(self._weights):
                relative = position_bias.logits(heads, num_slots // step.num_hypotheses, start=step.position)
            # (b * n, h, 1, T) -> (b * n, h, 1, T * n): all hypotheses of a position have the same distance
            relative = ops.repeat(relative, step.num_hypotheses, axis=-1)
            # (b * n, h, 1, T * n) -> (b, n, g, r, T * n), the logits of a step. A bias that is the same for
            # all queries has 1 in place of b * n.
            num_hypotheses = 1 if relative.shape[0] == 1 else step.num_hypotheses
            sizes = -1, num_hypotheses, self._num_groups, self._num_shared, num_slots
            bias = bias + ops.cast(ops.reshape(relative, sizes), bias.dtype)
        return bias
