"""The model of the course: from two sentences to probabilities."""

from typing import Any

import keras

from keras_transformer.course.layers import _PositionalCall
from keras_transformer.course.stacks import Decoder, Encoder
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class Transformer(_PositionalCall, keras.Model):
    """Encoder, decoder and a softmax over the target vocabulary.

    For `fit`, `evaluate` and `predict` the inputs are a dict of call arguments (each with a row for every
    example, masks too), or the pair of sentences; losses and metrics are given the probabilities. Keras
    exports no dict of scores: `keras.Model([source, target], model(source, target)[0]).export(path)` with two
    `keras.Input((None,), dtype="int32")` writes the probabilities alone.

    Args:
        num_layers: the number of encoder layers, and of decoder layers.
        embedding_dim, num_heads, fully_connected_dim, layernorm_eps: see `EncoderLayer`.
        input_vocab_size: the number of token ids of the source.
        target_vocab_size: the number of token ids of the target, `v`.
        max_positional_encoding_input: the longest source.
        max_positional_encoding_target: the longest target.
        dropout_rate: see `Encoder`.
        **kwargs: `name` and `dtype` of a Keras model.

    Call arguments:
        input_sentence: integers `(b, s)`, the source.
        output_sentence: integers `(b, t)`, the target so far.
        training: whether dropout is on.
        enc_padding_mask: the `mask` of `EncoderLayer`.
        look_ahead_mask: see `DecoderLayer`; without it nothing is hidden.
        dec_padding_mask: the `padding_mask` of `DecoderLayer`, over the source.

    Returns:
        Probabilities `(b, t, v)`, and the dict of `Decoder`.

    Raises:
        TypeError, ValueError: see `Encoder`.
    """

    def __init__(
        self,
        num_layers: int,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        input_vocab_size: int,
        target_vocab_size: int,
        max_positional_encoding_input: int,
        max_positional_encoding_target: int,
        dropout_rate: float = 0.1,
        layernorm_eps: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        sizes = (num_layers, embedding_dim, num_heads, fully_connected_dim)
        options = {"dropout_rate": dropout_rate, "layernorm_eps": layernorm_eps, "dtype": self.dtype_policy}
        self.encoder = Encoder(
            *sizes, input_vocab_size, max_positional_encoding_input, name="encoder", **options
        )
        self.decoder = Decoder(
            *sizes, target_vocab_size, max_positional_encoding_target, name="decoder", **options
        )
        self.final_layer = keras.layers.Dense(
            target_vocab_size, activation="softmax", dtype=self.dtype_policy, name="final_layer"
        )

    # `fit` passes all its inputs as the first argument; on JAX through `stateless_call`.
    def __call__(self, input_sentence: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        sentences, masks = _unpack(input_sentence)
        return super().__call__(*sentences, *args, **masks, **kwargs)

    def stateless_call(
        self,
        trainable_variables: Tensor,
        non_trainable_variables: Tensor,
        inputs: Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        """Call the model with given weights, as `fit` does on JAX."""
        sentences, masks = _unpack(inputs)
        variables = (trainable_variables, non_trainable_variables)
        return super().stateless_call(*variables, *sentences, *args, **masks, **kwargs)

    def build(self, input_sentence_shape: Shape, output_sentence_shape: Shape) -> None:
        self.encoder.build(input_sentence_shape)
        self.decoder.build(output_sentence_shape, (*input_sentence_shape, self.encoder.embedding_dim))
        self.final_layer.build((*output_sentence_shape, self.decoder.embedding_dim))

    def call(
        self,
        input_sentence: Tensor,
        output_sentence: Tensor,
        training: bool | None = None,
        enc_padding_mask: Tensor | None = None,
        look_ahead_mask: Tensor | None = None,
        dec_padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        enc_output = self.encoder(input_sentence, training, enc_padding_mask)
        dec_output, attention_weights = self.decoder(
            output_sentence, enc_output, training, look_ahead_mask, dec_padding_mask
        )
        return self.final_layer(dec_output), attention_weights

    def compute_output_shape(
        self, input_sentence_shape: Shape, output_sentence_shape: Shape
    ) -> tuple[Shape, dict[str, Shape]]:
        enc_output_shape = self.encoder.compute_output_shape(input_sentence_shape)
        _, weights = self.decoder.compute_output_shape(output_sentence_shape, enc_output_shape)
        return (*output_sentence_shape, self.decoder.target_vocab_size), weights

    def compute_loss(
        self,
        x: Tensor = None,
        y: Tensor = None,
        y_pred: Tensor = None,
        sample_weight: Tensor = None,
        training: bool = True,
    ) -> Tensor:
        """Compute the loss of the probabilities, the first of what `call` returned."""
        return super().compute_loss(x, y, y_pred[0], sample_weight, training)

    def compute_metrics(
        self, x: Tensor, y: Tensor, y_pred: Tensor, sample_weight: Tensor = None
    ) -> dict[str, Tensor]:
        """Compute the metrics of the probabilities, the first of what `call` returned."""
        return super().compute_metrics(x, y, y_pred[0], sample_weight)

    def options(self) -> dict[str, object]:
        """Return the constructor's arguments, which encoder and decoder have."""
        source, target = self.encoder.options(), self.decoder.options()
        sizes = {
            "max_positional_encoding_input": source.pop("maximum_position_encoding"),
            "max_positional_encoding_target": target.pop("maximum_position_encoding"),
        }
        return {**source, **target, **sizes}


def _unpack(inputs: Tensor) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Split what `fit` passes in one piece into positional and keyword arguments."""
    if isinstance(inputs, dict):
        return (), inputs
    return (tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)), {}
