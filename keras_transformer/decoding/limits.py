"""What each source's answers are bound to, in the state of a search."""

from typing import NamedTuple

from keras import ops

from keras_transformer.types import Tensor


class Limits(NamedTuple):
    """Bounds of the answers to each source; `()` stands for none, which a loop can carry."""

    shortest: Tensor = ()
    """int32 `(b,)`: the fewest tokens."""
    longest: Tensor = ()
    """int32 `(b,)`: the most tokens."""
    prefix_ids: Tensor = ()
    """int32 `(b, p)`, padded: what the answers begin with."""

    def select(self, rows: Tensor) -> "Limits":
        """Take some sources.

        Args:
            rows: integers `(b',)`, which of them.

        Returns:
            Their limits.
        """
        return Limits(*(part if is_absent(part) else ops.take(part, rows, axis=0) for part in self))

    def repeat(self, beam_size: int) -> "Limits":
        """Give every hypothesis the limits of its source.

        Args:
            beam_size: hypotheses for each source, `n`.

        Returns:
            Limits of `b * n` rows.
        """
        return Limits(*(part if is_absent(part) else ops.repeat(part, beam_size, axis=0) for part in self))


def is_absent(part: Tensor) -> bool:
    """Say whether a part of a state stands for nothing.

    Args:
        part: a tensor or `()`.

    Returns:
        True for `()`.
    """
    return isinstance(part, tuple)
