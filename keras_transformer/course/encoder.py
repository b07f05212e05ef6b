"""The encoder of the course: from source ids to vectors."""

from typing import Any

import keras

from keras_transformer.course.course_masks import read_mask
from keras_transformer.course.encoder_layer import EncoderLayer
from keras_transformer.course.sentence_stack import SentenceStack
from keras_transformer.layers.validation import freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class Encoder(SentenceStack):
    """Embeds the source sentence and runs it through `num_layers` encoder layers.

    Args:
        num_layers: see `SentenceStack`, as for the other arguments.
        embedding_dim: see `SentenceStack`.
        num_heads: see `SentenceStack`.
        fully_connected_dim: see `SentenceStack`.
        input_vocab_size: the number of token ids of the source.
        maximum_position_encoding: the longest source.
        dropout_rate: see `SentenceStack`.
        layernorm_eps: see `SentenceStack`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        x: integers `(b, s)`.
        training: whether dropout is on.
        mask: see `EncoderLayer`.

    Returns:
        `(b, s, embedding_dim)`.

    Raises:
        ValueError: a sentence longer than `maximum_position_encoding`, a mask
            of another rank or size.
    """

    def __init__(
        self,
        num_layers: int,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        input_vocab_size: int,
        maximum_position_encoding: int,
        dropout_rate: float = 0.1,
        layernorm_eps: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_layers,
            embedding_dim,
            num_heads,
            fully_connected_dim,
            input_vocab_size,
            maximum_position_encoding,
            dropout_rate,
            layernorm_eps,
            **kwargs,
        )
        self.input_vocab_size = input_vocab_size
        self.enc_layers = [
            EncoderLayer(**self.layer_options(), dtype=self.dtype_policy, name=f"encoder_layer{i}")
            for i in range(1, num_layers + 1)
        ]

    def build(self, x_shape: Shape) -> None:
        vectors_shape = self._build_embedding(x_shape)
        for layer in self.enc_layers:
            layer.build(vectors_shape)
        freeze_parts(self)

    def call(self, x: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        rows, length = x.shape
        mask = read_mask("mask", mask, (rows, self.num_heads, length, length), "keys")
        x = self.embed(x, training)
        for layer in self.enc_layers:
            x = layer(x, training, mask)
        return x

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape, self.embedding_dim)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "input_vocab_size": self.input_vocab_size}
