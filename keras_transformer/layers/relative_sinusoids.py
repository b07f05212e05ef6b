"""Relative sinusoidal positions, Dai et al. 2019 (Transformer-XL), section 3.3."""

import keras
from keras import ops

from keras_transformer._arguments import known_width
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.layers.rotary_embedding import _Rotation
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class RelativeSinusoids(keras.layers.Layer):
    """Logits of queries with a projected sinusoidal encoding of the query-key distance.

    The terms (b) and (d) of the paper, `(q + v) · W r`, where `r` has sines and cosines of the distance. The
    term (c) is in the bias of the queries. Distances longer than in training have an encoding too, so models
    can work on longer sequences than they were trained on (Csordás et al. 2021).

    Args:
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        query: Heads `(b, t, h, k)`.
        key: Heads `(b, s, h, k)`. Defaults to `query`.
        start: Position of the first query.

    Returns:
        `(b, h, t, s)`, the `bias` of `dot_product_attention`.
    """

    def build(self, query_shape: Shape, key_shape: Shape | None = None) -> None:
        num_heads, key_dim = query_shape[-2], known_width(query=query_shape)
        # A cosine and a sine for each wave, as wide as the model: neighboring distances up to a hundred differ
        # in few waves if there are few in all (docs/log.md).
        num_waves = (num_heads * key_dim + 1) // 2
        self.kernel = self.add_weight(
            shape=(num_heads, key_dim, 2 * num_waves), initializer="glorot_uniform", name="kernel"
        )
        self.bias = self.add_weight(shape=(num_heads, key_dim), initializer="zeros", name="bias")

    def call(self, query: Tensor, key: Tensor | None = None, start: Tensor | int = 0) -> Tensor:
        key = query if key is None else key
        return ops.cast(self.logits(query, dynamic_shape(key)[1], start), self.compute_dtype)

    def logits(self, query: Tensor, key_length: Tensor | int, start: Tensor | int = 0) -> Tensor:
        """Return the float32 logits `(b, h, t, s)` of queries `(b, t, h, k)`, the first at `start`."""
        width = self.kernel.shape[-1]
        scale = query.shape[-1] ** -0.5
        query = (query + ops.cast(self.bias, query.dtype)) * ops.cast(scale, query.dtype)
        # Instead of projecting an encoding for each distance, project the query, and use that the product of
        # two rotated vectors depends on the distance only: cos(i - j) = cos i cos j + sin i sin j.
        # (b, t, h, k), (h, k, w) -> (b, t, h, w)
        waves = ops.einsum("bthk,hkw->bthw", query, ops.cast(self.kernel, query.dtype))
        turned = _Rotation.of(dynamic_shape(query)[1], width, start)(waves)
        # (s, 1, w) -> (s, w): the encodings of the key positions, the cosines first
        first = ops.concatenate([ops.ones((1, 1, width // 2)), ops.zeros((1, 1, width // 2))], axis=-1)
        keys = ops.cast(_Rotation.of(key_length, width)(first)[:, 0], query.dtype)
        return ops.cast(ops.einsum("bthw,sw->bhts", turned, keys), "float32")
