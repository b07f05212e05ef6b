"""Relative position bias, Raffel et al. 2020 (T5), section 2.1."""

import math

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_transformer._arguments import as_position, check_positive
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.types import Shape, Tensor


def _clipped_distances(
    query_length: Tensor | int, key_length: Tensor | int, start: Tensor | int, limit: int
) -> Tensor:
    """Return key position minus query position, clipped to `±limit`, plus `limit`: int32 `(t, s)`."""
    queries = ops.arange(query_length, dtype="int32") + as_position(start)
    # (t,), (s,) -> (t, s)
    distances = ops.arange(key_length, dtype="int32")[None, :] - queries[:, None]
    return ops.clip(distances, -limit, limit) + limit


@keras.saving.register_keras_serializable(package="keras_transformer")
class RelativePositionBias(keras.layers.Layer):
    """Learned per-head bias on the attention logits, indexed by query-key distance (T5).

    Each near distance has a separate bucket; farther distances share buckets of logarithmically growing size,
    and all distances of at least `max_distance` share one.

    Args:
        num_heads: Number of attention heads, `h`.
        num_buckets: Number of buckets, even and at least 4.
        max_distance: Keys this far or farther share one bucket.
        bidirectional: Whether half of the buckets are for later keys. If False, all buckets are for earlier
            keys, and later keys share the bucket of distance 0.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        query: `(b, t, d)`.
        key: `(b, s, d)`. Defaults to `query`.
        start: Position of the first query.

    Returns:
        `(1, h, t, s)`, the `bias` of `dot_product_attention`.

    Raises:
        ValueError: If `num_buckets` is odd or below 4, or `max_distance` is not above
            `num_buckets / 4` (`num_buckets / 2` if not `bidirectional`).
    """

    def __init__(
        self,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance)
        if num_buckets < 4 or num_buckets % 2:
            raise ValueError(
                f"`num_buckets` must be even, and at least 4. Received: num_buckets={num_buckets}."
            )
        divisor = 4 if bidirectional else 2
        if max_distance <= num_buckets // divisor:
            raise ValueError(
                f"`max_distance` must be above num_buckets / {divisor}. Received: "
                f"max_distance={max_distance}, num_buckets={num_buckets}."
            )
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional

    def build(self, query_shape: Shape, key_shape: Shape | None = None) -> None:
        self.biases = self.add_weight(
            shape=(self.num_buckets, self.num_heads),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="biases",
        )

    def call(self, query: Tensor, key: Tensor | None = None, start: Tensor | int = 0) -> Tensor:
        key = query if key is None else key
        biases = self.between(ops.shape(query)[1], ops.shape(key)[1], start=start)
        return ops.cast(biases, self.compute_dtype)

    def logits(self, query: Tensor, key_length: Tensor | int, start: Tensor | int = 0) -> Tensor:
        """Return `between` for queries `(b, t, h, k)`; only their length matters."""
        return self.between(dynamic_shape(query)[1], key_length, start)

    def between(
        self, query_length: Tensor | int, key_length: Tensor | int, start: Tensor | int = 0
    ) -> Tensor:
        """Return the float32 bias `(1, h, t, s)` of `t` queries, the first at `start`, and `s` keys."""
        distances = _clipped_distances(query_length, key_length, start, self.max_distance)
        # A table computed in NumPy saves the logarithms in every call.
        buckets = ops.take(ops.convert_to_tensor(self._buckets()), distances, axis=0)
        # (t, s) -> (t, s, h) -> (1, h, t, s)
        biases = ops.take(ops.cast(self.biases, "float32"), buckets, axis=0)
        return ops.transpose(biases, (2, 0, 1))[None, :, :, :]

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape | None = None) -> Shape:
        return (1, self.num_heads, query_shape[1], (key_shape or query_shape)[1])

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
        }

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
