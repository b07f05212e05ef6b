"""What `EncoderLayer` and `DecoderLayer` of the course have in common: options and parts."""

from typing import Any

import keras

from keras_transformer.course.functions import FullyConnected
from keras_transformer.course.positional_call import PositionalCall
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.validation import check_positive, check_rates
from keras_transformer.types import Shape


class CourseLayer(PositionalCall):
    """The base of `EncoderLayer` and `DecoderLayer`.

    Args:
        embedding_dim: the width, `d`, and the width of each head too.
        num_heads: the number of heads, `h`; it need not divide the width.
        fully_connected_dim: the inner width of the feed-forward network, `f`.
        dropout_rate: of the dropout on the attention weights, and of the one
            after the feed-forward network.
        layernorm_eps: what normalization adds to the variance.
        **kwargs: `name` and `dtype` of a Keras layer.

    Raises:
        TypeError: a size that is not an integer.
        ValueError: sizes not above zero, a rate outside [0, 1).
    """

    def __init__(
        self,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        dropout_rate: float = 0.1,
        layernorm_eps: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(
            embedding_dim=embedding_dim, num_heads=num_heads, fully_connected_dim=fully_connected_dim
        )
        check_rates(dropout_rate=dropout_rate)
        self.embedding_dim = embedding_dim
        self.num_heads = num_heads
        self.fully_connected_dim = fully_connected_dim
        self.dropout_rate = dropout_rate
        self.layernorm_eps = layernorm_eps
        self.supports_masking = True
        # In the order of the course, so that the weights of its layers can be set here.
        self._create_attention()
        self.ffn = FullyConnected(embedding_dim, fully_connected_dim, dtype=self.dtype_policy)
        self._create_layernorms()
        self.dropout_ffn = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "embedding_dim": self.embedding_dim,
            "num_heads": self.num_heads,
            "fully_connected_dim": self.fully_connected_dim,
            "dropout_rate": self.dropout_rate,
            "layernorm_eps": self.layernorm_eps,
        }

    def _create_attention(self) -> None:
        """Make the attention of the layer."""
        raise NotImplementedError(f"{type(self).__name__} must say what attention it has.")

    def _create_layernorms(self) -> None:
        """Make what normalizes it."""
        raise NotImplementedError(f"{type(self).__name__} must say what is normalized.")

    def _attention(self, name: str) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.num_heads, self.embedding_dim, dropout=self.dropout_rate, dtype=self.dtype_policy, name=name
        )

    def _layernorm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(epsilon=self.layernorm_eps, dtype=self.dtype_policy, name=name)

    def _check_width(self, x_shape: Shape) -> None:
        """Refuse an input that cannot be added to what attention returns."""
        if x_shape[-1] not in (self.embedding_dim, None):
            raise ValueError(
                "The last axis of `x` must have the size of `embedding_dim`. Received: "
                f"x of shape {tuple(x_shape)}, embedding_dim={self.embedding_dim}."
            )
