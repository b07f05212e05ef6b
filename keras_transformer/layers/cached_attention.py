"""What all layers of a decoder need to know of one step, computed once."""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.arguments import as_position, known_values
from keras_transformer.backend import batched_product, make_buffer, take_rows, write_rows, writes_slices
from keras_transformer.layers.masks import combine_masks
from keras_transformer.types import Tensor


class Hypotheses(NamedTuple):
    """How the heads of `n` hypotheses of each source are moved."""

    number: int
    """Hypotheses for each source, `n`."""
    to_heads: Tensor
    """Integers `(b * h * n,)` for `of_each_head`; `()` where a transpose is as good."""
    from_heads: Tensor
    """Integers `(b * n * h,)` for `of_each_source`; `()` likewise."""

    @classmethod
    def of(cls, number: int, batch_size: Tensor | int, num_heads: int) -> "Hypotheses":
        """Plan the moves.

        In a graph of TensorFlow by gathering rows: its transpose goes to oneDNN, which takes several times as
        long for tensors of this size.

        Args:
            number: hypotheses for each source, `n`.
            batch_size: sources, `b`.
            num_heads: heads, `h`.

        Returns:
            The plan.
        """
        if number == 1 or writes_slices():
            return cls(number, (), ())
        sources = ops.arange(batch_size, dtype="int32")[:, None, None] * (number * num_heads)
        rows, heads = ops.arange(number, dtype="int32"), ops.arange(num_heads, dtype="int32")
        return cls(
            number,
            ops.reshape(sources + heads[:, None] + rows * num_heads, (-1,)),
            ops.reshape(sources + rows[:, None] + heads * number, (-1,)),
        )

    def of_each_head(self, heads: Tensor) -> Tensor:
        """Put the hypotheses of a source side by side.

        Args:
            heads: `(b * n, 1, h, k)`.

        Returns:
            `(b, h, n, k)`.
        """
        return self._move(heads, heads.shape[2], self.to_heads, self.number)

    def of_each_source(self, heads: Tensor) -> Tensor:
        """Put the heads of a hypothesis side by side.

        Args:
            heads: `(b, h, n, k)`.

        Returns:
            `(b * n, 1, h, k)`.
        """
        num_heads, width = heads.shape[1], heads.shape[3]
        moved = self._move(heads, self.number, self.from_heads, num_heads)
        return ops.reshape(moved, (-1, 1, num_heads, width))

    def _move(self, heads: Tensor, rows: int, order: Tensor, columns: int) -> Tensor:
        """Exchange the two middle axes of `(b, columns, rows, k)`."""
        width = heads.shape[3]
        if self.number == 1:
            return ops.reshape(heads, (-1, rows, columns, width))
        if isinstance(order, tuple):
            return ops.transpose(ops.reshape(heads, (-1, columns, rows, width)), (0, 2, 1, 3))
        return ops.reshape(take_rows(ops.reshape(heads, (-1, width)), order), (-1, rows, columns, width))


class AttentionCache(NamedTuple):
    """The projected keys and values of one attention.

    All hypotheses of a source, `n` of them, share one row: slot `t * n + j` is what hypothesis `j`
    wrote at position `t`. So nothing is copied when hypotheses change places; which slots each one
    may attend to, a mask says.
    """

    keys: Tensor
    """`(b, h, T * n, k)`, zeros where nothing was written yet."""
    values: Tensor
    """`(b, h, T * n, k)`, its width may differ from that of the keys."""

    @classmethod
    def create(
        cls,
        max_length: Tensor | int,
        batch_size: Tensor | int,
        beam_size: int = 1,
        *,
        num_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: str,
    ) -> "AttentionCache":
        """Make an empty cache for `max_length` positions.

        Args:
            max_length: how many positions there is room for, `T`.
            batch_size: sources, `b`.
            beam_size: hypotheses for each source, `n`.
            num_heads: heads, `h`.
            key_dim: the width of a key, `k`.
            value_dim: the width of a value.
            dtype: of the keys and values.

        Returns:
            The cache, all zeros.
        """
        sizes = batch_size, num_heads, max_length * beam_size
        return cls(make_buffer((*sizes, key_dim), dtype), make_buffer((*sizes, value_dim), dtype))

    def append(self, key: Tensor, value: Tensor, position: Tensor, beam_size: int = 1) -> "AttentionCache":
        """Write the key and value of one position.

        Args:
            key: `(b, h, n, k)`.
            value: `(b, h, n, k)`.
            position: where to write, an integer scalar below `T`.
            beam_size: hypotheses for each source, `n`.

        Returns:
            The cache with the position written.

        Raises:
            ValueError: a position that there is no room for, where it is known.
        """
        return self.write(key, value, self.slots(position, beam_size))

    def slots(self, position: Tensor, beam_size: int = 1) -> Tensor:
        """Find where a position is written; the same for all caches of one size.

        Args:
            position: an integer scalar below `T`.
            beam_size: hypotheses for each source, `n`.

        Returns:
            The first slot, a scalar; in a graph of TensorFlow integers `(b * h,)`, rows of a
            matrix of width `n * k`.

        Raises:
            ValueError: a position that there is no room for, where it is known.
        """
        _check_position(position, self.keys.shape[2], beam_size)
        position = ops.cast(position, "int32")
        if writes_slices():
            return position * beam_size
        batch_size, num_heads, num_slots, _ = ops.shape(self.keys)
        return ops.arange(batch_size * num_heads, dtype="int32") * (num_slots // beam_size) + position

    def write(self, key: Tensor, value: Tensor, slots: Tensor) -> "AttentionCache":
        """Write the key and value of one position where `slots` says.

        Args:
            key: `(b, h, n, k)`.
            value: `(b, h, n, k)`.
            slots: from `slots`.

        Returns:
            The cache with the position written.
        """
        return AttentionCache(_write(self.keys, key, slots), _write(self.values, value, slots))

    def own_slots(self, num_rows: int | None, position: Tensor) -> Tensor:
        """Let each hypothesis see what it wrote itself, up to a position.

        Args:
            num_rows: hypotheses of all sources, `b * n`; None if not known: then one for each source.
            position: an integer scalar.

        Returns:
            A boolean tensor `(1, 1, n, T * n)`.
        """
        batch_size = self.keys.shape[0]
        beam_size = num_rows // batch_size if num_rows and batch_size else 1
        slots = ops.arange(ops.shape(self.keys)[2], dtype="int32")
        is_own = ops.equal(slots % beam_size, ops.arange(beam_size, dtype="int32")[:, None])
        return ops.logical_and(is_own, slots // beam_size <= position)[None, None, :, :]

    def select(self, rows: Tensor) -> "AttentionCache":
        """Take some sources, in any order.

        Args:
            rows: integers `(b',)`: which old row each new row continues.

        Returns:
            The cache of these sources.
        """
        return AttentionCache(ops.take(self.keys, rows, axis=0), ops.take(self.values, rows, axis=0))

    def grow(self, num_positions: Tensor | int, beam_size: int = 1) -> "AttentionCache":
        """Make room for more positions.

        Args:
            num_positions: how many more.
            beam_size: hypotheses for each source, `n`.

        Returns:
            The longer cache, zeros behind what was written.
        """
        return AttentionCache(*(_longer(part, num_positions * beam_size) for part in self))


def _write(buffer: Tensor, heads: Tensor, slots: Tensor) -> Tensor:
    """Write `(b, h, n, k)` where `AttentionCache.slots` says."""
    heads = ops.cast(heads, buffer.dtype)
    if writes_slices():
        return ops.slice_update(buffer, (0, 0, slots, 0), heads)
    return write_rows(buffer, slots, ops.reshape(heads, (-1, heads.shape[2] * heads.shape[3])))


def _longer(buffer: Tensor, num_slots: Tensor | int) -> Tensor:
    batch_size, num_heads, _, width = ops.shape(buffer)
    room = make_buffer((batch_size, num_heads, num_slots, width), buffer.dtype)
    return ops.concatenate([buffer, room], axis=2)


def _check_position(position: Tensor, num_slots: int | None, beam_size: int) -> None:
    """Refuse to write behind the end, which JAX would ignore."""
    known = known_values(ops.convert_to_tensor(position))
    if known is None or num_slots is None:
        return
    max_length = num_slots // beam_size
    if not 0 <= int(known) < max_length:
        raise ValueError(
            f"`position` must be at least 0 and below max_length={max_length}. "
            f"Received: position={int(known)}."
        )


# Added to a logit that must not count: large enough to absorb it, small enough to stay finite.
_HIDDEN = -1e30


def hide_unless(mask: Tensor) -> Tensor:
    """Turn a mask into what is added to logits.

    Args:
        mask: boolean, True where a key may be attended to.

    Returns:
        A float32 tensor of the same shape: 0 where it may, and a number that absorbs
        every logit where it may not.
    """
    return ops.where(mask, np.float32(0), np.float32(_HIDDEN))


def step_attention(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute what `dot_product_attention` computes, for one position of `n` hypotheses.

    The hypotheses of a source are the rows of one product of matrices. A query that may
    attend to nothing weights everything alike; the caller leaves only zeros there.

    Args:
        query: `(b, h, n, k)`.
        keys: `(b, g, m, k)`; each of the `g` heads serves `h / g` heads of the query.
        values: `(b, g, m, k)`, of any width.
        bias: broadcasts to `(b, h, n, m)`, added to the logits; None for nothing.

    Returns:
        The output `(b, h, n, k)`, and the weights `(b, h, n, m)`.
    """
    num_heads, beam_size, width = query.shape[1:]
    num_groups = keys.shape[1]
    rows = num_heads // num_groups * beam_size
    query = query * ops.cast(width**-0.5, query.dtype)
    if num_groups != num_heads:
        query = ops.reshape(query, (-1, num_groups, rows, width))
    logits = ops.cast(batched_product(query, keys, transposed=True), "float32")
    if num_groups != num_heads:
        logits = ops.reshape(logits, (-1, num_heads, beam_size, ops.shape(keys)[2]))
    logits = logits if bias is None else logits + bias
    # Not `softmax`: TensorFlow gives that to oneDNN, which needs ten times as long for so few numbers.
    weights = ops.exp(ops.log_softmax(logits, axis=-1))
    grouped = ops.cast(weights, values.dtype)
    if num_groups != num_heads:
        grouped = ops.reshape(grouped, (-1, num_groups, rows, ops.shape(keys)[2]))
    outputs = batched_product(grouped, values)
    if num_groups != num_heads:
        outputs = ops.reshape(outputs, (-1, num_heads, beam_size, values.shape[-1]))
    return outputs, weights


class StepPlan(NamedTuple):
    """One step of decoding, as every layer sees it."""

    position: Tensor
    """An integer scalar: which position is computed."""
    bias: Tensor
    """float32 `(b, 1, n, T * n)`, added to the logits of self-attention; the first size may be 1."""
    slots: Tensor
    """Where the caches are written; see `AttentionCache.slots`."""
    hypotheses: Hypotheses
    """How many each source has, and how their heads are moved."""
    encoder_bias: Tensor | None
    """float32 `(b, 1, 1, s)`, likewise for the encoder's output; None where all of it counts."""


def plan_step(
    cache: AttentionCache,
    position: Tensor,
    visible: Tensor,
    num_heads: int,
    encoder_padding_mask: Tensor | None = None,
) -> StepPlan:
    """Compute what the layers of a stack share.

    Args:
        cache: of any of them; they are of one size.
        position: an integer scalar.
        visible: boolean `(b, 1, n, T * n)`, which slots of a cache each hypothesis may attend to; the
            first size may be 1.
        num_heads: of the queries, `h`.
        encoder_padding_mask: `(b, s)`, True (1) where the source has a token.

    Returns:
        The plan.

    Raises:
        ValueError: a position that there is no room for, where it is known.
    """
    position, encoder_bias = as_position(position), None
    if encoder_padding_mask is not None:
        encoder_bias = hide_unless(combine_masks(padding_mask=encoder_padding_mask))
    beam_size = int(visible.shape[2])
    hypotheses = Hypotheses.of(beam_size, ops.shape(cache.keys)[0], num_heads)
    slots = cache.slots(position, beam_size)
    return StepPlan(position, hide_unless(visible), slots, hypotheses, encoder_bias)
