"""Relative position keys, Shaw et al. 2018, section 3.2."""

import keras
from keras import ops

from keras_transformer._arguments import check_positive, known_width
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.layers.relative_position_bias import _clipped_distances
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class RelativePositionKeys(keras.layers.Layer):
    """Learned key vector per query-key distance; its product with the query is added to the logits.

    Unlike in `RelativePositionBias`, these products depend on the query, so the query can decide how many
    positions back a head looks. All heads share the vectors.

    Args:
        max_distance: Keys this far or farther share one vector per direction.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        query: Heads `(b, t, h, k)`.
        key: Heads `(b, s, h, k)`. Defaults to `query`.
        start: Position of the first query.

    Returns:
        `(b, h, t, s)`, the `bias` of `dot_product_attention`.

    Raises:
        TypeError: If `max_distance` is not an integer.
        ValueError: If `max_distance` is not positive.
    """

    def __init__(self, *, max_distance: int = 32, **kwargs: object) -> None:
        super().__init__(**kwargs)
        check_positive(max_distance=max_distance)
        self.max_distance = max_distance

    def build(self, query_shape: Shape, key_shape: Shape | None = None) -> None:
        key_dim = known_width(query=query_shape)
        self.keys = self.add_weight(
            shape=(2 * self.max_distance + 1, key_dim),
            initializer=keras.initializers.RandomNormal(stddev=key_dim**-0.5),
            name="keys",
        )

    def call(self, query: Tensor, key: Tensor | None = None, start: Tensor | int = 0) -> Tensor:
        key = query if key is None else key
        return ops.cast(self.logits(query, dynamic_shape(key)[1], start), self.compute_dtype)

    def logits(self, query: Tensor, key_length: Tensor | int, start: Tensor | int = 0) -> Tensor:
        """Return the float32 logits `(b, h, t, s)` of queries `(b, t, h, k)`, the first at `start`."""
        distances = _clipped_distances(dynamic_shape(query)[1], key_length, start, self.max_distance)
        # (t, s) -> (t, s, k)
        keys = ops.take(ops.cast(self.keys, query.dtype), distances, axis=0)
        query = query * ops.cast(query.shape[-1] ** -0.5, query.dtype)
        return ops.cast(ops.einsum("bthk,tsk->bhts", query, keys), "float32")

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "max_distance": self.max_distance}
