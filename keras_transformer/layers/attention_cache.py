"""Keys and values of earlier positions, kept while decoding step by step."""

from typing import NamedTuple

from keras import ops

from keras_transformer.layers.validation import known_values
from keras_transformer.types import Tensor


class AttentionCache(NamedTuple):
    """The projected keys and values of one attention, time first.

    With time as the first axis a new position is one contiguous block, which
    can be written in place.
    """

    keys: Tensor
    """`(T, b, h, k)`, zeros where nothing was written yet."""
    values: Tensor
    """`(T, b, h, k)`, its width may differ from that of the keys."""

    @classmethod
    def create(
        cls,
        max_length: int,
        batch_size: Tensor | int,
        *,
        num_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: str,
    ) -> "AttentionCache":
        """Make an empty cache for `max_length` positions.

        Args:
            max_length: how many positions there is room for, `T`.
            batch_size: rows, `b`.
            num_heads: heads, `h`.
            key_dim: the width of a key, `k`.
            value_dim: the width of a value.
            dtype: of the keys and values.

        Returns:
            The cache, all zeros.
        """
        return cls(
            ops.zeros((max_length, batch_size, num_heads, key_dim), dtype),
            ops.zeros((max_length, batch_size, num_heads, value_dim), dtype),
        )

    def append(self, key: Tensor, value: Tensor, position: Tensor) -> "AttentionCache":
        """Write the key and value of one position.

        Args:
            key: `(b, 1, h, k)`.
            value: `(b, 1, h, k)`.
            position: where to write, an integer scalar below `T`.

        Returns:
            The cache with the position written.

        Raises:
            ValueError: a position that there is no room for, where it is known.
        """
        _check_position(position, self.keys.shape[0])
        indices = ops.reshape(ops.cast(position, "int32"), (1, 1))
        return AttentionCache(
            ops.scatter_update(self.keys, indices, ops.transpose(key, (1, 0, 2, 3))),
            ops.scatter_update(self.values, indices, ops.transpose(value, (1, 0, 2, 3))),
        )

    def reorder(self, rows: Tensor) -> "AttentionCache":
        """Take rows in another order, as beam search does when beams change.

        Args:
            rows: integers `(b,)`: which old row each new row continues.

        Returns:
            The cache with its batch axis reordered.
        """
        return AttentionCache(ops.take(self.keys, rows, axis=1), ops.take(self.values, rows, axis=1))

    def batch_first(self) -> tuple[Tensor, Tensor]:
        """Give keys and values as attention wants them.

        Returns:
            Keys and values, each `(b, T, h, k)`.
        """
        return ops.transpose(self.keys, (1, 0, 2, 3)), ops.transpose(self.values, (1, 0, 2, 3))


def _check_position(position: Tensor, max_length: int | None) -> None:
    """Refuse to write behind the end, which JAX would ignore."""
    known = known_values(ops.convert_to_tensor(position))
    if known is not None and max_length is not None and not 0 <= int(known) < max_length:
        raise ValueError(
            f"`position` must be at least 0 and below max_length={max_length}. "
            f"Received: position={int(known)}."
        )
