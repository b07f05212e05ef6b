"""Scaled token embeddings, "Attention Is All You Need", section 3.4."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.validation import check_positive
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Looks up a vector for each token id and scales it by `sqrt(d)`.

    The table starts as a normal distribution of deviation `1 / sqrt(d)`, so
    that the scaled vectors start with deviation 1, the size of the position
    marks, and the table can serve as the output projection too (see
    `OutputProjection`).

    Args:
        vocabulary_size: the number of ids, `v`.
        hidden_dim: the width, `d`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        token_ids: integers `(b, t)`, each at least 0 and below `v`.

    Returns:
        `(b, t, d)` in the layer's dtype.

    Raises:
        ValueError: a size that is not above zero.

    Example:
        >>> tuple(TokenEmbedding(100, 8)(keras.ops.ones((2, 5), "int32")).shape)
        (2, 5, 8)
    """

    def __init__(self, vocabulary_size: int, hidden_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(vocabulary_size=vocabulary_size, hidden_dim=hidden_dim)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5),
            name="embeddings",
        )

    def call(self, token_ids: Tensor) -> Tensor:
        vectors = ops.take(self.embeddings, ops.cast(token_ids, "int32"), axis=0)
        return ops.cast(vectors, self.compute_dtype) * self.hidden_dim**0.5

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
        }
