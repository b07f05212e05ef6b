"""From decoder states to logits, with or without the embedding's table."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.compiler import in_compiler
from keras_transformer.layers.prepared import prepare, prepared
from keras_transformer.layers.products import product_with_transpose
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.validation import check_positive, check_width
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class OutputProjection(keras.layers.Layer):
    """Gives each token of the vocabulary a logit.

    With `embedding` the logits are products with its table ("Attention Is All
    You Need", section 3.4; Press and Wolf 2017), and the layer has no weights
    of its own.

    Args:
        vocabulary_size: the number of logits, `v`.
        embedding: the `TokenEmbedding` whose table is used; None for a kernel
            `(d, v)` of its own. A copy of the layer made from its config has
            an embedding of its own: only a model can say what is shared.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.

    Returns:
        Logits `(b, t, v)`.

    Raises:
        ValueError: a size that is not above zero, an embedding of another
            vocabulary size, inputs of another width than the table or kernel.
    """

    def __init__(
        self, vocabulary_size: int, *, embedding: TokenEmbedding | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive(vocabulary_size=vocabulary_size)
        if embedding is not None and embedding.vocabulary_size != vocabulary_size:
            raise ValueError(
                "`embedding` must have the vocabulary of the projection. Received: "
                f"embedding.vocabulary_size={embedding.vocabulary_size}, "
                f"vocabulary_size={vocabulary_size}."
            )
        self.vocabulary_size = vocabulary_size
        self.embedding = embedding
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        if self.embedding is None:
            self.kernel = self.add_weight(
                shape=(input_shape[-1], self.vocabulary_size),
                initializer="glorot_uniform",
                name="kernel",
            )
        elif not self.embedding.built:
            self.embedding.build((None, None))

    def call(self, inputs: Tensor) -> Tensor:
        table_width = None if self.embedding is None else self.embedding.hidden_dim
        check_width(table_width or self.kernel.shape[0], inputs=inputs)
        return ops.matmul(ops.cast(inputs, self.compute_dtype), self._matrix())

    def prepare_steps(self, beam_size: int) -> None:
        """Transpose the embedding's table, where many steps of decoding follow; see `prepare`.

        With the rows of several hypotheses, a product with the transposed table takes half the time
        (TensorFlow, on a CPU); with fewer, the transposing would cost more than it gains.

        Args:
            beam_size: hypotheses for each source, `n`.
        """
        if self.embedding is not None and (beam_size > 1 or in_compiler()):
            prepare(self, self._matrix)

    def step(self, inputs: Tensor) -> Tensor:
        """Give the logits of one position of each row.

        Args:
            inputs: `(r, d)`.

        Returns:
            Logits `(r, v)`.
        """
        inputs = ops.cast(inputs, self.compute_dtype)
        matrix = prepared(self, lambda: None)
        if matrix is not None:
            return ops.matmul(inputs, matrix)
        if self.embedding is None:
            return ops.matmul(inputs, self._matrix())
        return product_with_transpose(inputs, ops.cast(self.embedding.embeddings, self.compute_dtype))

    def _matrix(self) -> Tensor:
        """Give the kernel, `(d, v)`."""
        if self.embedding is None:
            return ops.cast(self.kernel, self.compute_dtype)
        return ops.transpose(ops.cast(self.embedding.embeddings, self.compute_dtype))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.vocabulary_size)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding": keras.saving.serialize_keras_object(self.embedding),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "OutputProjection":
        embedding = keras.saving.deserialize_keras_object(config["embedding"])
        return cls(**{**config, "embedding": embedding})
