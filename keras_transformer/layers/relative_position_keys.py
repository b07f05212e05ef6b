"""Relative position keys, Shaw et al. 2018, section 3.2."""

from typing import ClassVar

import keras
from keras import ops

from keras_transformer._arguments import as_precise, known_width
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.layers.relative_position_bias import _clipped_distances
from keras_transformer.types import Shape, Tensor


class RelativePositionKeys(keras.layers.Layer):
    """Learned key vector per query-key distance; its product with the query is added to the logits.

    Unlike in `RelativePositionBias`, these products depend on the query, so the query can decide how many
    positions back a head looks. All heads share the vectors. Keys at `max_distance` or farther share one
    vector per direction.
    """

    max_distance: ClassVar[int] = 32

    def build(self, query_shape: Shape) -> None:
        key_dim = known_width(query=query_shape)
        self.keys = self.add_weight(
            shape=(2 * self.max_distance + 1, key_dim),
            initializer=keras.initializers.RandomNormal(stddev=key_dim**-0.5),
            name="keys",
        )

    def logits(self, query: Tensor, key_length: Tensor | int, start: Tensor | int = 0) -> Tensor:
        """Return the logits `(b, h, t, s)` of queries `(b, t, h, k)`, the first at `start`."""
        distances = _clipped_distances(dynamic_shape(query)[1], key_length, start, self.max_distance)
        # (t, s) -> (t, s, k)
        keys = ops.take(ops.cast(self.keys, query.dtype), distances, axis=0)
        query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
        return as_precise(ops.einsum("bthk,tsk->bhts", query, keys))
