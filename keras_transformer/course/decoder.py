"""The decoder of the course: from target ids and the encoder's output to vectors."""

from typing import Any

import keras

from keras_transformer.course.decoder_layer import DecoderLayer
from keras_transformer.course.sentence_stack import SentenceStack
from keras_transformer.layers.validation import freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class Decoder(SentenceStack):
    """Embeds the target sentence and runs it through `num_layers` decoder layers.

    Args:
        num_layers: see `SentenceStack`, as for the other arguments.
        embedding_dim: see `SentenceStack`.
        num_heads: see `SentenceStack`.
        fully_connected_dim: see `SentenceStack`.
        target_vocab_size: the number of token ids of the target.
        maximum_position_encoding: the longest target.
        dropout_rate: see `SentenceStack`.
        layernorm_eps: see `SentenceStack`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        x: integers `(b, t)`.
        enc_output: `(b, s, any width)`.
        training: whether dropout is on.
        look_ahead_mask: see `DecoderLayer`.
        padding_mask: see `DecoderLayer`.

    Returns:
        The output `(b, t, embedding_dim)`, and a dict of the weights of each
        layer `i`, from 1 and in order: `decoder_layer{i}_block1_self_att`
        `(b, h, t, t)` and `decoder_layer{i}_block2_decenc_att` `(b, h, t, s)`.

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
        target_vocab_size: int,
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
            target_vocab_size,
            maximum_position_encoding,
            dropout_rate,
            layernorm_eps,
            **kwargs,
        )
        self.target_vocab_size = target_vocab_size
        self.dec_layers = [
            DecoderLayer(**self.layer_options(), dtype=self.dtype_policy, name=f"decoder_layer{i}")
            for i in range(1, num_layers + 1)
        ]

    def build(self, x_shape: Shape, enc_output_shape: Shape) -> None:
        vectors_shape = self._build_embedding(x_shape)
        for layer in self.dec_layers:
            layer.build(vectors_shape, enc_output_shape)
        freeze_parts(self)

    def call(
        self,
        x: Tensor,
        enc_output: Tensor,
        training: bool | None = None,
        look_ahead_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        attention_weights = {}
        x = self.embed(x, training)
        for layer in self.dec_layers:
            x, block1, block2 = layer(x, enc_output, training, look_ahead_mask, padding_mask)
            attention_weights[f"{layer.name}_block1_self_att"] = block1
            attention_weights[f"{layer.name}_block2_decenc_att"] = block2
        return x, attention_weights

    def compute_output_shape(self, x_shape: Shape, enc_output_shape: Shape) -> tuple[Shape, dict[str, Shape]]:
        vectors_shape, shapes = (*x_shape, self.embedding_dim), {}
        for layer in self.dec_layers:
            _, block1, block2 = layer.compute_output_shape(vectors_shape, enc_output_shape)
            shapes[f"{layer.name}_block1_self_att"] = block1
            shapes[f"{layer.name}_block2_decenc_att"] = block2
        return vectors_shape, shapes

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "target_vocab_size": self.target_vocab_size}
