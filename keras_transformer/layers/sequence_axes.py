"""Which axes of an input are the sequence, and which are only a batch."""

import math
from collections.abc import Sequence

from keras import ops

from keras_transformer.arguments import as_boolean, known_sizes
from keras_transformer.types import Shape, Tensor


class _SequenceAxes:
    """Brings inputs of any rank to `(b, t, d)`, and back.

    Without `attention_axes` the axis before the width is the sequence, and everything before it a batch: none
    for `(t, d)`, two axes for `(b, n, t, d)`. With several `attention_axes` the sequence runs through all of
    them.
    """

    def __init__(self, rank: int, attention_axes: int | Sequence[int] | None = None) -> None:
        if rank < 2:
            raise ValueError(f"The inputs must have the shape (..., t, d). Received: rank={rank}.")
        # More axes are a batch of sequences, as in TensorFlow Addons; Keras attends along all of them.
        chosen = rank - 2 if attention_axes is None else attention_axes
        given = (chosen,) if isinstance(chosen, int) else tuple(chosen)
        self.sequence = tuple(axis + rank if axis < 0 else axis for axis in given)
        if not all(0 <= axis < rank - 1 for axis in self.sequence) or not self.sequence:
            raise ValueError(
                f"`attention_axes` must name axes between 0 and {rank - 2} of inputs of rank {rank}. "
                f"Received: attention_axes={given}."
            )
        self.leading = tuple(axis for axis in range(rank - 1) if axis not in self.sequence)
        self.rank = rank
        # The usual case: nothing is reordered, and no operation is added to a graph.
        self.is_plain = self.leading == (0,) and self.sequence == (1,)

    def check_leading(self, **inputs: Tensor) -> None:
        """Raise ValueError for different batch axes, even if they hold as many sequences."""
        for axis in self.leading:
            sizes = {name: known_sizes(tensor.shape)[axis] for name, tensor in inputs.items()}
            if len(set(sizes.values()) - {None}) > 1:
                names = ", ".join(f"{name} of shape {tuple(tensor.shape)}" for name, tensor in inputs.items())
                raise ValueError(f"The inputs must have one size in axis {axis}. Received: {names}.")

    def flatten(self, inputs: Tensor) -> Tensor:
        if self.is_plain:
            return inputs
        sizes = ops.shape(inputs)
        length = math.prod(sizes[axis] for axis in self.sequence)
        batch = math.prod(sizes[axis] for axis in self.leading)
        # (..., d) -> (*leading, *sequence, d) -> (b, t, d)
        ordered = ops.transpose(inputs, (*self.leading, *self.sequence, self.rank - 1))
        return ops.reshape(ordered, (batch, length, inputs.shape[-1]))

    def restore(self, outputs: Tensor, query: Tensor) -> Tensor:
        if self.is_plain:
            return outputs
        sizes, order = ops.shape(query), (*self.leading, *self.sequence)
        widths = outputs.shape[2:]
        # (b, t, ...) -> (*leading, *sequence, ...), then in the order that the axes of the query have
        outputs = ops.reshape(outputs, (*(sizes[axis] for axis in order), *widths))
        back = [order.index(axis) for axis in range(self.rank - 1)]
        return ops.transpose(outputs, (*back, *range(self.rank - 1, self.rank - 1 + len(widths))))

    def restore_scores(self, scores: Tensor, query: Tensor) -> Tensor:
        if self.is_plain:
            return scores
        # (b, h, t, s) -> (*leading, h, t, s)
        sizes = ops.shape(query)
        return ops.reshape(scores, (*(sizes[axis] for axis in self.leading), *ops.shape(scores)[1:]))

    def flatten_padding_mask(self, mask: Tensor | None, name: str, key: Tensor) -> Tensor | None:
        if self.is_plain or mask is None:
            return mask
        mask = as_boolean(mask, name)
        shape, wanted = known_sizes(mask.shape), known_sizes(key.shape[:-1])
        if len(shape) != len(wanted) or _differ(shape, wanted):
            raise ValueError(
                f"`{name}` must have the shape of the key without its width, {wanted}. "
                f"Received: shape={shape}."
            )
        # The shape of the key without its width -> (b, s); a width of 1 lets it go the way of the key
        return self.flatten(mask[..., None])[..., 0]

    def flatten_attention_mask(self, mask: Tensor | None, query: Tensor) -> Tensor | None:
        if self.is_plain or mask is None:
            return mask
        mask, num_leading = as_boolean(mask, "attention_mask"), len(self.leading)
        num_trailing = len(mask.shape) - num_leading
        if len(mask.shape) == 2:
            return mask
        if num_trailing not in (2, 3):
            raise ValueError(
                f"`attention_mask` must have the rank 2, {num_leading + 2} or {num_leading + 3} for inputs "
                f"of rank {self.rank}. Received: shape={tuple(mask.shape)}."
            )
        sizes = ops.shape(query)
        leading, trailing = [sizes[axis] for axis in self.leading], ops.shape(mask)[num_leading:]
        # (..., t, s) -> (b, t, s), or (..., h, t, s) -> (b, h, t, s); first an axis of size 1 is filled up,
        # since it cannot be joined to another
        full = ops.broadcast_to(mask, (*leading, *trailing))
        return ops.reshape(full, (math.prod(leading), *trailing))


def _differ(shape: Shape, wanted: Shape) -> bool:
    return any(len({*sizes} - {None}) > 1 for sizes in zip(shape, wanted, strict=True))
