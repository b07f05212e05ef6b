"""Sequence axes and batch axes of attention inputs of any rank."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from keras import ops

from keras_transformer._arguments import as_boolean, known_sizes
from keras_transformer.layers.masks import _check_key_mask, _check_query_mask, _Masks
from keras_transformer.types import Shape, Tensor

_INPUT_NAMES = ("query", "value", "key")
# Integers, scalar tensors for sizes known only at run time, or None for unknown sizes.
_Sizes: TypeAlias = tuple[Any, ...]


class _SequenceAxes:
    """Reshapes inputs of any rank to `(b, t, d)` and back.

    By default all axes between the first and the last are the sequence, as in Keras; `(t, d)` has no batch.
    Several `attention_axes` are flattened into one sequence.
    """

    def __init__(self, rank: int, attention_axes: int | Sequence[int] | None = None) -> None:
        if rank < 2:
            raise ValueError(f"The inputs must have the shape (..., t, d). Received: rank={rank}.")
        chosen = range(min(1, rank - 2), rank - 1) if attention_axes is None else attention_axes
        given = (chosen,) if isinstance(chosen, int) else tuple(chosen)
        self.sequence = tuple(axis + rank if axis < 0 else axis for axis in given)
        if not all(0 <= axis < rank - 1 for axis in self.sequence) or not self.sequence:
            raise ValueError(
                f"`attention_axes` must name axes between 0 and {rank - 2} of inputs of rank {rank}. "
                f"Received: attention_axes={given}."
            )
        self.leading = tuple(axis for axis in range(rank - 1) if axis not in self.sequence)
        self.rank = rank
        # The usual case (b, t, d) adds no operation to a graph.
        self.is_plain = self.leading == (0,) and self.sequence == (1,)

    @classmethod
    def of(
        cls, query: Shape, value: Shape, key: Shape, attention_axes: int | Sequence[int] | None
    ) -> "_SequenceAxes":
        """Return the axes of these inputs; raise ValueError if their shapes do not match each other."""
        inputs = {
            name: known_sizes(shape) for name, shape in zip(_INPUT_NAMES, (query, value, key), strict=True)
        }
        received = ", ".join(f"{name} of shape {shape}" for name, shape in inputs.items())
        if not len(query) == len(value) == len(key):
            raise ValueError(
                "`query`, `value` and `key` must have one rank; a mask is an `attention_mask` or a "
                f"`padding_mask`. Received: {received}."
            )
        axes = cls(len(query), attention_axes)
        flat = [axes._flat_shape(shape) for shape in inputs.values()]
        lengths = {shape[1] for shape in flat[1:]}
        # Compared axis by axis: equal products of different leading axes are different batches.
        batches = [{shape[axis] for shape in inputs.values()} for axis in axes.leading]
        if any(len(sizes - {None}) > 1 for sizes in (lengths, *batches)):
            raise ValueError(
                "`query`, `value` and `key` must have one batch size, and `value` and `key` one length. "
                f"Received: {received}."
            )
        return axes

    def _flat_shape(self, shape: Shape) -> Shape:
        """Return the shape `(b, t, d)` that `flatten` gives an input of `shape`."""
        shape = known_sizes(shape)
        batch, length = (
            _known_product(shape[axis] for axis in axes) for axes in (self.leading, self.sequence)
        )
        return batch, length, shape[-1]

    def flatten(
        self, query: Tensor, value: Tensor, key: Tensor, masks: _Masks
    ) -> tuple[Tensor, Tensor, Tensor, _Masks]:
        """Reshape the query to `(b, t, d)`, value and key to `(b, s, d)`, and the masks to match."""
        if self.is_plain:
            return query, value, key, masks
        flat = _Masks(
            self._flatten_attention_mask(masks.attention_mask, query, value),
            self._flatten_padding_mask(masks.padding_mask, "padding_mask", key),
            self._flatten_padding_mask(masks.query_mask, "query_mask", query),
            self._flatten_padding_mask(masks.value_mask, "value_mask", value),
            self._flatten_padding_mask(masks.key_mask, "key_mask", key),
        )
        values = self._flatten(value)
        # The same tensor as key and value is reshaped once.
        return self._flatten(query), values, values if key is value else self._flatten(key), flat

    def _flatten(self, inputs: Tensor) -> Tensor:
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
        # (b, t, ...) -> (*leading, *sequence, ...), then in the axis order of the query
        outputs = ops.reshape(outputs, (*(sizes[axis] for axis in order), *widths))
        back = [order.index(axis) for axis in range(self.rank - 1)]
        return ops.transpose(outputs, (*back, *range(self.rank - 1, self.rank - 1 + len(widths))))

    def restore_scores(self, scores: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if self.is_plain:
            return scores
        sizes, key_sizes = ops.shape(query), ops.shape(key)
        leading, lengths = ([sizes[axis] for axis in axes] for axes in (self.leading, self.sequence))
        # (b, h, t, s) -> (*leading, h, *queries, *keys)
        key_lengths = [key_sizes[axis] for axis in self.sequence]
        return ops.reshape(scores, (*leading, ops.shape(scores)[1], *lengths, *key_lengths))

    def check_masks(
        self,
        query: Shape,
        key: Shape,
        num_heads: int,
        attention_mask: Shape | None,
        padding_mask: Shape | None,
    ) -> None:
        """Raise ValueError if mask shapes do not match the shapes of query and key."""
        scores = (known_sizes(query)[0], num_heads, known_sizes(query)[1], known_sizes(key)[1])
        if padding_mask is not None and self.is_plain:
            _check_key_mask(padding_mask, "padding_mask", scores)
        elif padding_mask is not None:
            self._check_padding_mask(padding_mask, "padding_mask", key)
        if attention_mask is not None and self.is_plain:
            _check_query_mask(attention_mask, scores)
        elif attention_mask is not None:
            self._check_attention_mask(attention_mask, query, key)

    def _flatten_padding_mask(self, mask: Tensor | None, name: str, inputs: Tensor) -> Tensor | None:
        if mask is None:
            return None
        mask = as_boolean(mask, name)
        self._check_padding_mask(mask.shape, name, inputs.shape)
        # (...,) -> (..., 1) -> (b, s, 1) -> (b, s)
        return self._flatten(mask[..., None])[..., 0]

    def _check_padding_mask(self, mask_shape: Shape, name: str, shape: Shape) -> None:
        """Raise ValueError unless a mask has the shape of its inputs without the last axis."""
        found, wanted = known_sizes(mask_shape), known_sizes(shape[:-1])
        pairs = zip(found, wanted, strict=False)
        if len(found) != len(wanted) or any(len({*sizes} - {None}) > 1 for sizes in pairs):
            raise ValueError(
                f"`{name}` must have the shape of the inputs without their width, {wanted}. "
                f"Received: shape={found}."
            )

    def _flatten_attention_mask(self, mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
        if mask is None:
            return None
        mask = as_boolean(mask, "attention_mask")
        if len(mask.shape) == 2:
            return mask
        self._check_attention_mask(mask.shape, query.shape, key.shape)
        sizes, lengths = self._mask_sizes(mask.shape, ops.shape(query), ops.shape(key))
        num_leading = len(self.leading)
        heads = ops.shape(mask)[num_leading : len(mask.shape) - len(lengths)]
        # Axes of size 1 are broadcast before they are merged with others.
        full = ops.broadcast_to(mask, (*sizes[:num_leading], *heads, *lengths))
        half = len(lengths) // 2
        # (*leading, [h], *queries, *keys) -> (b, [h], t, s)
        flat = math.prod(lengths[:half]), math.prod(lengths[half:])
        return ops.reshape(full, (math.prod(sizes[:num_leading]), *heads, *flat))

    def _check_attention_mask(self, mask_shape: Shape, query_shape: Shape, key_shape: Shape) -> None:
        """Raise ValueError if mask sizes do not match query and key; the heads axis is not checked."""
        shape = known_sizes(mask_shape)
        sizes, lengths = self._mask_sizes(shape, known_sizes(query_shape), known_sizes(key_shape))
        pairs = [*zip(shape, sizes, strict=False), *zip(shape[-len(lengths) :], lengths, strict=True)]
        if any(size not in (1, None, wanted) and wanted is not None for size, wanted in pairs):
            raise ValueError(
                f"`attention_mask` must broadcast to the leading sizes {tuple(sizes)} and the lengths "
                f"{tuple(lengths)}. Received: shape={shape}."
            )

    def _mask_sizes(self, mask_shape: Shape, query: _Sizes, key: _Sizes) -> tuple[_Sizes, _Sizes]:
        """Return a mask's leading sizes and its lengths, `(t, s)` or `(*queries, *keys)` as in Keras."""
        leading, num_lengths = tuple(query[axis] for axis in self.leading), len(self.sequence)
        if len(mask_shape) == 2:
            leading = ()
        lengths = (*(query[axis] for axis in self.sequence), *(key[axis] for axis in self.sequence))
        rest = len(mask_shape) - len(leading)
        if rest in (2, 3):
            flat = _known_product(lengths[:num_lengths]), _known_product(lengths[num_lengths:])
            return leading, flat
        if rest not in (2 * num_lengths, 2 * num_lengths + 1):
            ranks = {2, *(len(leading) + n for m in (1, num_lengths) for n in (2 * m, 2 * m + 1))}
            raise ValueError(
                f"`attention_mask` must have a rank of {', '.join(map(str, sorted(ranks)))} for inputs "
                f"of rank {self.rank}. Received: shape={tuple(mask_shape)}."
            )
        return leading, lengths


def _known_product(sizes: Iterable[int | None]) -> int | None:
    """Return the product of sizes, None if one is unknown."""
    found = list(sizes)
    return None if None in found else math.prod(size or 0 for size in found)
