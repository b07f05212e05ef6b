"""Scaled token embeddings, "Attention Is All You Need", section 3.4."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer._arguments import (
    as_tensor,
    check_flags,
    check_kind,
    check_positive,
    check_token_ids,
    check_width,
    known_values,
)
from keras_transformer._backend.gather import take
from keras_transformer._backend.random import draw_normal
from keras_transformer.layers.built_parts import _freeze_parts
from keras_transformer.layers.masks import padding_mask
from keras_transformer.layers.projection import _Linear, _matrix_of
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Looks up a vector for each token id and scales it by `sqrt(d)`.

    An id outside the vocabulary is an error. While a graph is traced the values are not known: there
    TensorFlow raises an error on a CPU, and where no error can be raised the vector is NaN.

    Args:
        vocabulary_size: the number of ids, `v`.
        hidden_dim: the width, `d`.
        scale: whether vectors are multiplied by `sqrt(d)`.
        mask_zero: whether the id 0 is padding, of which the Keras mask tells the layers that follow.
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

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        *,
        scale: bool = True,
        mask_zero: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(vocabulary_size=vocabulary_size, hidden_dim=hidden_dim)
        check_flags(scale=scale, mask_zero=mask_zero)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.scale = scale
        # On by default, unlike in Keras: one rule of padding holds in layers and in models.
        self.mask_zero = mask_zero

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            shape=(self.vocabulary_size, self.hidden_dim),
            # So the scaled vectors start with deviation 1, the size of the position marks, and the table can
            # serve as the output projection too.
            initializer=partial(draw_normal, stddev=self.hidden_dim**-0.5),
            name="embeddings",
        )

    def call(self, token_ids: Tensor) -> Tensor:
        token_ids = _as_integers(as_tensor(token_ids))
        check_token_ids(token_ids, self.vocabulary_size)
        # int64 may hold what int32 cannot, which then would look like another id.
        if keras.backend.standardize_dtype(token_ids.dtype) != "int64":
            token_ids = ops.cast(token_ids, "int32")
        is_known = ops.logical_and(token_ids >= 0, token_ids < self.vocabulary_size)
        scale = self.hidden_dim**0.5 if self.scale else 1.0
        scales = ops.cast(ops.where(is_known, scale, float("nan")), self.compute_dtype)  # (b, t)
        vectors = take(self.embeddings, ops.cast(token_ids, "int32"))
        return ops.cast(vectors, self.compute_dtype) * ops.expand_dims(scales, -1)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        return padding_mask(as_tensor(inputs)) if self.mask_zero else None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.hidden_dim)

    def compute_output_spec(self, token_ids: Tensor) -> keras.KerasTensor:
        """Return symbolic outputs; Keras calls this."""
        check_token_ids(_as_integers(token_ids), self.vocabulary_size)
        return super().compute_output_spec(token_ids)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "scale": self.scale,
            "mask_zero": self.mask_zero,
        }


def _as_integers(token_ids: Tensor) -> Tensor:
    """Return whole numbers as integers; raise TypeError for fractions, or give -1 where a graph is traced."""
    # Keras hands floats over where it makes the inputs itself: it rebuilds a subclassed model from a file so,
    # and a `Sequential` without an `Input`. Half precision has no large ids, so it is left to be refused.
    dtype = keras.backend.standardize_dtype(token_ids.dtype)
    if dtype not in ("float32", "float64"):
        return token_ids
    values = known_values(token_ids)
    if values is not None and (values != np.floor(values)).any():
        raise TypeError(f"`token_ids` must be integers. Received: fractions, dtype={dtype}.")
    ids = ops.cast(token_ids, "int32")
    return ops.where(ops.equal(ops.cast(ids, dtype), token_ids), ids, -1)


@keras.saving.register_keras_serializable(package="keras_transformer")
class OutputProjection(keras.layers.Layer):
    """Gives each token of the vocabulary a logit.

    With `embedding` the logits are products with its table ("Attention Is All You Need", section 3.4; Press
    and Wolf 2017), and the layer has no kernel of its own.

    Args:
        vocabulary_size: the number of logits, `v`.
        embedding: the `TokenEmbedding` whose table is used; None for a kernel `(d, v)` of its own. A copy
            made from the config has an embedding of its own: only a model can say what is shared.
        use_bias: whether each token has a bias `(v,)`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.

    Returns:
        Logits `(b, t, v)`.

    Raises:
        ValueError: a size that is not above zero, an embedding of another vocabulary size, inputs of another
            width than the table or kernel.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        embedding: TokenEmbedding | None = None,
        use_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(vocabulary_size=vocabulary_size)
        check_flags(use_bias=use_bias)
        check_kind(TokenEmbedding, None, embedding=embedding)
        if embedding is not None and embedding.vocabulary_size != vocabulary_size:
            raise ValueError(
                "`embedding` must have the vocabulary of the projection. Received: "
                f"embedding.vocabulary_size={embedding.vocabulary_size}, "
                f"vocabulary_size={vocabulary_size}."
            )
        self.vocabulary_size = vocabulary_size
        self.embedding = embedding
        self.use_bias = use_bias
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.bias = None
        if self.use_bias:
            # Not that of the dense layer, so that it is one weight with a table and without.
            self.bias = self.add_weight(shape=(self.vocabulary_size,), initializer="zeros", name="bias")
        if self.embedding is None:
            self.dense = keras.layers.Dense(
                self.vocabulary_size, use_bias=False, dtype=self.dtype_policy, name="dense"
            )
            self.dense.build(input_shape)
            _freeze_parts(self)
        elif not self.embedding.built:
            self.embedding.build((None, None))

    def call(self, inputs: Tensor) -> Tensor:
        self.compute_output_shape(inputs.shape)
        if self.embedding is None:
            logits = self.dense(inputs)
        else:
            logits = ops.matmul(ops.cast(inputs, self.compute_dtype), self.flat()[0])
        return logits if self.bias is None else ops.add(logits, ops.cast(self.bias, logits.dtype))

    def flat(self) -> tuple[Tensor, Tensor | None]:
        """Return what vectors are multiplied with, `(d, v)`, and the bias, in the dtype of the layer."""
        if self.embedding is None:
            matrix = _matrix_of(self.dense)
        else:
            # (v, d) -> (d, v)
            matrix = ops.transpose(ops.cast(self.embedding.embeddings, self.compute_dtype))
        return matrix, None if self.bias is None else ops.cast(self.bias, matrix.dtype)

    def frozen(self) -> Callable[[Tensor], Tensor]:
        """Return the function of rows `(r, d)` that the layer is now, for a loop."""
        # It transposes a shared table once, before the loop: in each step the product with the table itself
        # takes up to 1.8 times as long, for 32 rows in TensorFlow and 4 in XLA.
        return _Linear(self)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if self.embedding is not None:
            check_width(self.embedding.hidden_dim, inputs=input_shape)
        elif self.built:
            check_width(self.dense.kernel.shape[0], inputs=input_shape)
        return (*input_shape[:-1], self.vocabulary_size)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding": keras.saving.serialize_keras_object(self.embedding),
            "use_bias": self.use_bias,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "OutputProjection":
        embedding = keras.saving.deserialize_keras_object(config["embedding"])
        return cls(**{**config, "embedding": embedding})
