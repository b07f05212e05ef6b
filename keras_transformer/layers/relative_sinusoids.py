"""Relative sinusoidal positions, Dai et al. 2019 (Transformer-XL), section 3.3."""

import keras
from keras import ops

from keras_transformer._arguments import as_position, as_precise, known_width
from keras_transformer._backend.formulas import position_angles
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.layers.rotary_embedding import _rates, _Rotation
from keras_transformer.types import Shape, Tensor


class RelativeSinusoids(keras.layers.Layer):
    """Logits from the query and a projected sinusoidal encoding of the query-key distance.

    Computes the terms (b) and (d) of the paper, `(q + v) · W r`, where `r` has sines and cosines of the
    distance. The bias of the query projection yields the term (c). Distances longer than in training have an
    encoding too, so models can work on longer sequences than they were trained on (Csordás et al. 2021).
    """

    def build(self, query_shape: Shape) -> None:
        num_heads, key_dim = known_width(query=query_shape[:-1]), known_width(query=query_shape)
        hidden_dim = num_heads * key_dim
        # A cosine and a sine for each wave, together as wide as the model, `w`.
        width = hidden_dim + hidden_dim % 2
        # Glorot's range for the matrix (w, h * k).
        limit = (6 / (width + hidden_dim)) ** 0.5
        self.kernel = self.add_weight(
            shape=(num_heads, key_dim, width),
            initializer=keras.initializers.RandomUniform(-limit, limit),
            name="kernel",
        )
        self.bias = self.add_weight(shape=(num_heads, key_dim), initializer="zeros", name="bias")

    def logits(self, query: Tensor, key_length: Tensor | int, start: Tensor | int = 0) -> Tensor:
        """Return the logits `(b, h, t, s)` of queries `(b, t, h, k)`, the first at `start`."""
        batch_size, length, num_heads, key_dim = dynamic_shape(query)
        query = (query + ops.cast(self.bias, query.dtype)) * ops.cast(key_dim**-0.5, query.dtype)
        kernel = ops.cast(self.kernel, query.dtype)
        # All distances, from -(t + start) to s - start: (t + s + 1, w)
        num_distances = length + key_length + 1
        distances = ops.cast(_encodings(length + start, num_distances, kernel.shape[-1]), query.dtype)
        if query.shape[1] == 1:
            # A step of decoding has fewer queries than distances, so the queries are projected.
            waves = ops.einsum("bthk,hkw->bthw", query, kernel)
            logits = ops.einsum("bthw,jw->bhtj", waves, distances)
        else:
            logits = ops.einsum("bthk,jhk->bhtj", query, ops.einsum("hkw,jw->jhk", kernel, distances))
        # Row i begins t - i columns later than it should. Without the first t numbers, rows of t + s numbers
        # begin where they should: (b, h, t, t + s + 1) -> (b, h, t, s)
        numbers = ops.reshape(logits, (batch_size, num_heads, length * num_distances))
        rows = ops.reshape(numbers[..., length:], (batch_size, num_heads, length, num_distances - 1))
        return as_precise(rows[..., :key_length])


def _encodings(past: Tensor | int, num_distances: Tensor | int, width: int) -> Tensor:
    """Return the cosines, then the sines, of the distances `-past`, `1 - past`, ...: float32 `(j, w)`."""
    rates = _rates(width)
    angles = position_angles(as_position(past), 1, rates)
    # Turned by p, the encoding of -past becomes that of p - past.
    first = ops.concatenate([ops.cos(angles), -ops.sin(angles)], axis=-1)[:, None, :]
    return _Rotation.by(position_angles(0, num_distances, rates))(first)[:, 0]
