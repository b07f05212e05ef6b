"""Scaled token embeddings, "Attention Is All You Need", section 3.4."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.dot_product_attention import as_tensor
from keras_transformer.layers.gathering import take_rows
from keras_transformer.layers.validation import check_positive
from keras_transformer.layers.value_checks import as_token_ids, check_token_ids
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Looks up a vector for each token id and scales it by `sqrt(d)`.

    An id outside the vocabulary is an error. While a graph is traced the values
    are not known: there TensorFlow raises an error on a CPU, and where no error
    can be raised (on a GPU or TPU, or with JAX) the vector is NaN, never that of
    another token.

    The table starts as a normal distribution of deviation `1 / sqrt(d)`, so
    that the scaled vectors start with deviation 1, the size of the position
    marks, and the table can serve as the output projection too (see
    `OutputProjection`).

    Args:
        vocabulary_size: the number of ids, `v`.
        hidden_dim: the width, `d`.
        scale: whether vectors are multiplied by `sqrt(d)`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        token_ids: integers `(b, t)`, each at least 0 and below `v`; float32 will do, as Keras makes it.

    Returns:
        `(b, t, d)` in the layer's dtype.

    Raises:
        TypeError: ids that are not integers.
        ValueError: a size that is not above zero, an id outside the vocabulary.

    Example:
        >>> tuple(TokenEmbedding(100, 8)(keras.ops.ones((2, 5), "int32")).shape)
        (2, 5, 8)
    """

    def __init__(self, vocabulary_size: int, hidden_dim: int, *, scale: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(vocabulary_size=vocabulary_size, hidden_dim=hidden_dim)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.scale = scale

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5),
            name="embeddings",
        )

    def call(self, token_ids: Tensor) -> Tensor:
        token_ids = as_token_ids(as_tensor(token_ids))
        check_token_ids(token_ids, self.vocabulary_size)
        if keras.backend.standardize_dtype(token_ids.dtype) != "int64":  # which may hold what int32 cannot
            token_ids = ops.cast(token_ids, "int32")
        is_known = ops.logical_and(token_ids >= 0, token_ids < self.vocabulary_size)
        scale = self.hidden_dim**0.5 if self.scale else 1.0
        scales = ops.cast(ops.where(is_known, scale, float("nan")), self.compute_dtype)  # (b, t)
        vectors = take_rows(self.embeddings, ops.cast(token_ids, "int32"))
        return ops.cast(vectors, self.compute_dtype) * ops.expand_dims(scales, -1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "scale": self.scale,
        }
