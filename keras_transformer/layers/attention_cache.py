"""Keys and values of earlier positions, kept while decoding step by step."""

from typing import NamedTuple

from keras import ops

from keras_transformer.layers.buffers import make_buffer, write_rows
from keras_transformer.layers.compiler import writes_slices
from keras_transformer.layers.value_checks import known_values
from keras_transformer.types import Tensor


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
