"""Relative position bias, Raffel et al. 2020 (T5), section 2.1."""

import math
from typing import ClassVar

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.layers.masks import _distance
from keras_transformer.types import Shape, Tensor


def _clipped_distances(
    query_length: Tensor | int, key_length: Tensor | int, start: Tensor | int, limit: int
) -> Tensor:
    """Return key position minus query position, clipped to `±limit`, plus `limit`: int32 `(t, s)`."""
    return ops.clip(-_distance(query_length, key_length, start), -limit, limit) + limit


class RelativePositionBias(keras.layers.Layer):
    """Learned per-head bias on the attention logits, indexed by query-key distance (T5).

    Each near distance has a separate bucket; farther distances share buckets of logarithmically growing size,
    and all distances of at least `max_distance` share one.

    Args:
        num_heads: Number of attention heads, `h`.
        bidirectional: Whether half of the buckets are for later keys. If False, all buckets are for earlier
            keys, and later keys share the bucket of distance 0.
        **kwargs: `name` and `dtype` of a Keras layer.
    """

    num_buckets: ClassVar[int] = 32
    max_distance: ClassVar[int] = 128

    def __init__(self, num_heads: int, *, bidirectional: bool = True, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.bidirectional = bidirectional

    def build(self, query_shape: Shape) -> None:
        self.biases = self.add_weight(
            shape=(self.num_buckets, self.num_heads),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="biases",
        )

    def logits(self, query: Tensor, key_length: Tensor | int, start: Tensor | int = 0) -> Tensor:
        """Return the float32 biases `(1, h, t, s)` of queries `(b, t, h, k)`, the first at `start`."""
        distances = _clipped_distances(dynamic_shape(query)[1], key_length, start, self.max_distance)
        # A table computed in NumPy saves the logarithms in every call.
        buckets = ops.take(ops.convert_to_tensor(self._buckets()), distances, axis=0)
        # (t, s) -> (t, s, h) -> (1, h, t, s)
        biases = ops.take(ops.cast(self.biases, "float32"), buckets, axis=0)
        return ops.transpose(biases, (2, 0, 1))[None, :, :, :]

    def _buckets(self) -> npt.NDArray[np.int32]:
        """Return the bucket of each distance from `-max_distance` to `max_distance`."""
        distances = np.arange(-self.max_distance, self.max_distance + 1)
        one_side = self.num_buckets
        if self.bidirectional:
            one_side //= 2
        else:
            distances = np.minimum(distances, 0)
        num_near = one_side // 2
        far = np.log(np.maximum(np.abs(distances), 1) / num_near) / math.log(self.max_distance / num_near)
        far_buckets = np.minimum(num_near + (far * (one_side - num_near)).astype(int), one_side - 1)
        buckets = np.where(np.abs(distances) < num_near, np.abs(distances), far_buckets)
        return (buckets + np.where(distances > 0, one_side, 0)).astype("int32")
