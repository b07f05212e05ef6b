"""Token embedding and output projection, "Attention Is All You Need", section 3.4."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import (
    as_integers,
    as_tensor,
    check_flags,
    check_kind,
    check_positive,
    check_token_ids,
    check_width,
    warn_user,
)
from keras_transformer._backend.indexing import gather
from keras_transformer._backend.random import draw_normal
from keras_transformer.layers.built_parts import _freeze_parts
from keras_transformer.layers.masks import padding_mask
from keras_transformer.layers.projection import Dense, _Linear, _matrix_of
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Token embedding, scaled by `sqrt(d)`.

    An id outside the vocabulary is an error. In a compiled function, only TensorFlow on a CPU raises it;
    other devices and backends return a vector of NaN for such an id.

    Args:
        vocabulary_size: Number of token ids, `v`.
        hidden_dim: Width of the vectors, `d`.
        scale: Whether to multiply the vectors by `sqrt(d)`.
        mask_zero: Whether id 0 is padding. If True, a Keras mask is passed on to the following layers.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        token_ids: Integers `(b, t)`, each at least 0 and below `v`. Whole numbers in float32 are accepted.

    Returns:
        `(b, t, d)` in the layer's compute dtype.

    Raises:
        TypeError: If the ids are not whole numbers.
        ValueError: If a size is not above zero, or an id is outside the vocabulary.

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
        self.vocabulary_size = int(vocabulary_size)  # Keras refuses NumPy's integers
        self.hidden_dim = int(hidden_dim)
        self.scale = scale
        # True by default, unlike in Keras, so that layers treat padding as models do.
        self.mask_zero = mask_zero

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            shape=(self.vocabulary_size, self.hidden_dim),
            # The scaled vectors then start with standard deviation 1, about the size of the sinusoidal
            # encodings, and the table can also serve as the output projection.
            initializer=partial(draw_normal, stddev=self.hidden_dim**-0.5),
            name="embeddings",
        )

    def call(self, token_ids: Tensor) -> Tensor:
        token_ids = as_integers(as_tensor(token_ids))
        check_token_ids(token_ids, self.vocabulary_size)
        # An int64 id beyond 32 bits would wrap around to another id.
        if keras.backend.standardize_dtype(token_ids.dtype) != "int64":
            token_ids = ops.cast(token_ids, "int32")
        is_known = ops.logical_and(token_ids >= 0, token_ids < self.vocabulary_size)
        scale = self.hidden_dim**0.5 if self.scale else 1.0
        scales = ops.cast(ops.where(is_known, scale, float("nan")), self.compute_dtype)  # (b, t)
        vectors = gather(self.embeddings, ops.cast(token_ids, "int32"))
        return ops.cast(vectors, self.compute_dtype) * ops.expand_dims(scales, -1)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        return padding_mask(as_tensor(inputs)) if self.mask_zero else None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.hidden_dim)

    def compute_output_spec(self, token_ids: Tensor) -> keras.KerasTensor:
        """Return symbolic outputs; called by Keras."""
        check_token_ids(as_integers(token_ids), self.vocabulary_size)
        return super().compute_output_spec(token_ids)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "scale": self.scale,
            "mask_zero": self.mask_zero,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class OutputProjection(keras.layers.Layer):
    """Projection to vocabulary logits, optionally tied to a token embedding.

    With `embedding`, its table is the kernel ("Attention Is All You Need", section 3.4; Press and Wolf 2017).

    Args:
        vocabulary_size: Number of logits, `v`.
        embedding: `TokenEmbedding` whose table to use. Defaults to None, a separate kernel `(d, v)`. A copy
            by `from_config` or `keras.models.clone_model` gets another embedding, with a warning; a model
            from a `.keras` file shares the table again.
        use_bias: Whether to add a bias `(v,)`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.

    Returns:
        Logits `(b, t, v)`.

    Raises:
        ValueError: If a size is not above zero, the embedding has another vocabulary size, or the inputs have
            another width than the weights.
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
        self.vocabulary_size = int(vocabulary_size)  # Keras refuses NumPy's integers
        self.embedding = embedding
        self.use_bias = use_bias
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.bias = None
        if self.use_bias:
            # Not the dense layer's bias, so that the weight is the same with and without an embedding.
            self.bias = self.add_weight(shape=(self.vocabulary_size,), initializer="zeros", name="bias")
        if self.embedding is None:
            self.dense = Dense(self.vocabulary_size, use_bias=False, dtype=self.dtype_policy, name="dense")
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
        """Return the kernel `(d, v)` and the bias, in the layer's compute dtype."""
        if self.embedding is None:
            matrix = _matrix_of(self.dense)
        else:
            # (v, d) -> (d, v)
            matrix = ops.transpose(ops.cast(self.embedding.embeddings, self.compute_dtype))
        return matrix, None if self.bias is None else ops.cast(self.bias, matrix.dtype)

    def with_fixed_weights(self) -> Callable[[Tensor], Tensor]:
        """Return a function from rows `(r, d)` to logits with the current weights, for a decoding loop."""
        # It transposes a shared table once, before the loop: multiplying by the untransposed table takes up
        # to 1.8 times as long in each step, for 32 rows in TensorFlow and 4 in XLA.
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
        # Keras numbers shared objects only in `.keras` files.
        if config["embedding"] is not None and "shared_object_id" not in config["embedding"]:
            warn_user(
                "This copy of an OutputProjection has a new table, which it does not share with an embedding "
                "layer of its model, because only a `.keras` file says which layers share a table. Models of "
                "this package are copied with type(model).from_config(model.get_config())."
            )
        embedding = keras.saving.deserialize_keras_object(config["embedding"])
        return cls(**{**config, "embedding": embedding})
