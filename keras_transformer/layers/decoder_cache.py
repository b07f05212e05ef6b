"""What a decoder keeps between the steps of decoding."""

from typing import NamedTuple

from keras import ops

from keras_transformer.layers.attention_cache import AttentionCache
from keras_transformer.layers.gathering import take_rows
from keras_transformer.types import Tensor


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
