"""The hypotheses of a source, side by side as rows of a matrix, and back."""

from typing import NamedTuple

from keras import ops

from keras_transformer.layers.compiler import writes_slices
from keras_transformer.layers.gathering import take_rows
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
