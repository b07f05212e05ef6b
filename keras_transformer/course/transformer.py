"""Layers, stacks and model of the course assignment."""

from typing import Any, ClassVar

import keras

from keras_transformer._arguments import check_number, check_positive, check_rates, check_width
from keras_transformer.course.functions import FullyConnected, _with_query_axis
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.position_encoding import PositionEncoding
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.types import Config, Shape, Tensor


class _EncoderCall(keras.layers.Layer):
    """A layer that accepts `training` by position, which Keras 3 rejects."""

    def __call__(self, x: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Any:
        return super().__call__(x, mask=mask, **_training(training))


class _DecoderCall(keras.layers.Layer):
    """A layer that accepts `training` by position after the encoder output."""

    def __call__(
        self,
        x: Tensor,
        enc_output: Tensor,
        training: bool | None = None,
        look_ahead_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
    ) -> Any:
        masks = {"look_ahead_mask": look_ahead_mask, "padding_mask": padding_mask}
        return super().__call__(x, enc_output=enc_output, **masks, **_training(training))


def _training(training: bool | None) -> Config:
    # Omitted if None: only then does Keras use the value of the outer layer.
    return {} if training is None else {"training": training}


class _CourseLayer(keras.layers.Layer):
    """Base class of encoder and decoder layers; creates the sub-layers."""

    attention_names: ClassVar[tuple[str, ...]]

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
        check_number(above=0, layernorm_eps=layernorm_eps)
        self.embedding_dim = embedding_dim
        self.supports_masking = True
        # In the order of the course, so that `set_weights` accepts the weights of a course model.
        dtype = self.dtype_policy
        for name in self.attention_names:
            options = {"dropout": dropout_rate, "dtype": dtype, "name": name}
            setattr(self, name, MultiHeadAttention(num_heads, embedding_dim, **options))
        self.ffn = FullyConnected(embedding_dim, fully_connected_dim, dtype=dtype)
        for number in range(1, len(self.attention_names) + 2):
            options = {"epsilon": layernorm_eps, "dtype": dtype, "name": f"layernorm{number}"}
            setattr(self, f"layernorm{number}", keras.layers.LayerNormalization(**options))
        self.dropout_ffn = keras.layers.Dropout(dropout_rate, dtype=dtype)

    def _build_parts(self, x_shape: Shape, *value_shapes: Shape) -> None:
        check_width(self.embedding_dim, x=x_shape)
        for name, value_shape in zip(self.attention_names, value_shapes, strict=True):
            getattr(self, name).build(x_shape, value_shape)
        for number in range(1, len(self.attention_names) + 2):
            getattr(self, f"layernorm{number}").build(x_shape)
        self.ffn.build(x_shape)


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class EncoderLayer(_EncoderCall, _CourseLayer):
    """Transformer encoder layer: self-attention and feed-forward network, post-normalized.

    Args:
        embedding_dim: Width `d`, also the width of each head.
        num_heads: Number of heads, `h`. Need not divide the width.
        fully_connected_dim: Inner width of the feed-forward network, `f`.
        dropout_rate: Dropout rate on the attention weights and after the feed-forward network.
        layernorm_eps: Constant added to the variance by layer normalization.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        x: Input `(b, s, d)`. The output has the same shape.
        training: Whether to apply dropout.
        mask: 1 (True) where the key may be attended to: `(b, s)`, `(b, 1, s)`, `(b, 1, 1, s)`, or one row per
            query, `(1, s, s)`. Defaults to the Keras mask of `x`.

    Example:
        >>> layer = EncoderLayer(embedding_dim=4, num_heads=2, fully_connected_dim=8)
        >>> mask = keras.ops.convert_to_tensor([[1, 1, 0]])
        >>> tuple(layer(keras.ops.ones((1, 3, 4)), True, mask).shape)
        (1, 3, 4)
    """

    attention_names: ClassVar[tuple[str, ...]] = ("mha",)

    def build(self, x_shape: Shape) -> None:
        self._build_parts(x_shape, x_shape)

    def call(self, x: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        attn_output = self.mha(x, x, x, attention_mask=_with_query_axis(mask), training=training)
        out1 = self.layernorm1(x + attn_output)
        ffn_output = self.dropout_ffn(self.ffn(out1), training=training)
        return self.layernorm2(out1 + ffn_output)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        # Only a padding mask (b, s) applies to the outputs.
        return previous_mask if len(getattr(previous_mask, "shape", ())) == 2 else None


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class DecoderLayer(_DecoderCall, _CourseLayer):
    """Transformer decoder layer: self-attention, cross-attention and feed-forward network.

    The constructor arguments are those of `EncoderLayer`. Self-attention is causal only if you pass a
    `look_ahead_mask`.

    Call arguments:
        x: Input `(b, t, d)`.
        enc_output: Encoder output `(b, s, any width)`.
        training: Whether to apply dropout.
        look_ahead_mask: 1 (True) where the target position may be attended to: `(1, t, t)`, `(t, t)`, `(b, t,
            t)` or `(b, 1, t, t)`.
        padding_mask: 1 (True) where the source position may be attended to: `(b, 1, s)`, `(b, s)` or `(b, 1,
            1, s)`.

    Returns:
        The output `(b, t, d)`, and the attention weights of self-attention `(b, h, t, t)` and cross-attention
        `(b, h, t, s)`.
    """

    attention_names: ClassVar[tuple[str, ...]] = ("mha1", "mha2")

    def build(self, x_shape: Shape, enc_output_shape: Shape) -> None:
        self._build_parts(x_shape, x_shape, enc_output_shape)

    def call(
        self,
        x: Tensor,
        enc_output: Tensor,
        training: bool | None = None,
        look_ahead_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        padding_mask = _with_query_axis(padding_mask)
        options = {"return_attention_scores": True, "training": training}

        # Block 1: the target attends to itself.
        attn1, weights1 = self.mha1(x, x, x, attention_mask=look_ahead_mask, **options)
        q1 = self.layernorm1(attn1 + x)
        # Block 2: queries from block 1, keys and values from the encoder.
        attn2, weights2 = self.mha2(q1, enc_output, enc_output, attention_mask=padding_mask, **options)
        out2 = self.layernorm2(attn2 + q1)
        # Block 3: the feed-forward network.
        ffn_output = self.dropout_ffn(self.ffn(out2), training=training)
        return self.layernorm3(ffn_output + out2), weights1, weights2

    def compute_mask(
        self, inputs: Tensor, previous_mask: Tensor | None = None
    ) -> tuple[Tensor | None, None, None]:
        return previous_mask, None, None


class _Stack(keras.layers.Layer):
    """Base class of encoder and decoder: embedding, position encoding and dropout."""

    def __init__(self, vocab_size: int, embedding_dim: int, dropout_rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.embedding_dim = embedding_dim
        self.supports_masking = True
        options = {"mask_zero": False, "dtype": self.dtype_policy, "name": "embedding"}
        self.embedding = TokenEmbedding(vocab_size, embedding_dim, **options)
        self.pos_encoding = PositionEncoding(dtype=self.dtype_policy)
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)

    def make_layers(
        self, layer_class: type[_CourseLayer], name: str, num_layers: int, *options: Any
    ) -> tuple[_CourseLayer, ...]:
        """Create the layers of a stack, numbered from 1."""
        check_positive(num_layers=num_layers)
        names = (f"{name}{number}" for number in range(1, num_layers + 1))
        # A tuple, since `tf.train.Checkpoint` does not see the layers in a list of a Keras layer.
        return tuple(layer_class(*options, dtype=self.dtype_policy.name, name=each) for each in names)

    def embed(self, token_ids: Tensor, training: bool | None = None) -> Tensor:
        """Embed token ids `(b, t)`, add position encodings and apply dropout: `(b, t, d)`."""
        return self.dropout(self.pos_encoding(self.embedding(token_ids)), training=training)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return no Keras mask: the course passes masks as call arguments."""


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class Encoder(_EncoderCall, _Stack):
    """Transformer encoder: embeds source ids `(b, s)` and applies `num_layers` encoder layers.

    Returns `(b, s, d)`. `input_vocab_size` is the number of token ids. `maximum_position_encoding` is
    accepted for compatibility and ignored: the length is unlimited. All other arguments, and the call
    arguments, are those of `EncoderLayer`.
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
        super().__init__(input_vocab_size, embedding_dim, dropout_rate, **kwargs)
        options = embedding_dim, num_heads, fully_connected_dim, dropout_rate, layernorm_eps
        self.enc_layers = self.make_layers(EncoderLayer, "encoder_layer", num_layers, *options)

    def build(self, x_shape: Shape) -> None:
        self.embedding.build(x_shape)
        for layer in self.enc_layers:
            layer.build((*x_shape, self.embedding_dim))

    def call(self, x: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        x, mask = self.embed(x, training), _with_query_axis(mask)
        for layer in self.enc_layers:
            x = layer(x, training, mask)
        return x


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class Decoder(_DecoderCall, _Stack):
    """Transformer decoder: embeds target ids `(b, t)` and applies `num_layers` decoder layers.

    The constructor arguments are those of `Encoder`, with `target_vocab_size` for `input_vocab_size`; the
    call arguments are those of `DecoderLayer`. Returns the output `(b, t, d)` and a dict of the attention
    weights of each layer `i`, from 1: `decoder_layer{i}_block1_self_att` `(b, h, t, t)` and
    `decoder_layer{i}_block2_decenc_att` `(b, h, t, s)`.
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
        super().__init__(target_vocab_size, embedding_dim, dropout_rate, **kwargs)
        options = embedding_dim, num_heads, fully_connected_dim, dropout_rate, layernorm_eps
        self.dec_layers = self.make_layers(DecoderLayer, "decoder_layer", num_layers, *options)

    def build(self, x_shape: Shape, enc_output_shape: Shape) -> None:
        self.embedding.build(x_shape)
        for layer in self.dec_layers:
            layer.build((*x_shape, self.embedding_dim), enc_output_shape)

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


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class Transformer(keras.Model):
    """Encoder-decoder Transformer of the course: encoder, decoder and a softmax output layer.

    For the constructor and call arguments, see `Encoder` and `Decoder`. The call returns probabilities
    `(b, t, target_vocab_size)` and the dict of `Decoder`.

    For `fit`, `evaluate` and `predict`, pass a dict of call arguments (each mask with a row per example) or
    the pair of sentences. Losses and metrics receive the probabilities. Keras cannot export the dict of
    attention weights: export `keras.Model([source, target], model(source, target)[0])`.
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
        sizes, dtype = (num_layers, embedding_dim, num_heads, fully_connected_dim), self.dtype_policy.name
        source = input_vocab_size, max_positional_encoding_input, dropout_rate, layernorm_eps
        target = target_vocab_size, max_positional_encoding_target, dropout_rate, layernorm_eps
        self.encoder = Encoder(*sizes, *source, dtype=dtype, name="encoder")
        self.decoder = Decoder(*sizes, *target, dtype=dtype, name="decoder")
        self.final_layer = keras.layers.Dense(
            target_vocab_size, activation="softmax", dtype=dtype, name="final_layer"
        )

    # `fit` passes all inputs as the first argument; on JAX it calls `stateless_call`.
    def __call__(self, input_sentence: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Call the model. All arguments may be passed by position."""
        return super().__call__(**_by_name(input_sentence, *args, **kwargs))

    def stateless_call(self, trainable: Any, non_trainable: Any, inputs: Any, **kwargs: Any) -> Any:
        """Call the model with the given weights; `fit` on JAX uses this."""
        return super().stateless_call(trainable, non_trainable, **_by_name(inputs, **kwargs))

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

    # Loss and metrics use only the probabilities, the first output of `call`.
    def compute_loss(self, x: Any, y: Any, y_pred: Any, *args: Any, training: bool = True) -> Tensor:
        """Compute the loss. Called by Keras."""
        return super().compute_loss(x, y, y_pred[0], *args, training=training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Config:
        """Compute the metrics. Called by Keras."""
        return super().compute_metrics(x, y, y_pred[0], sample_weight)

    def get_config(self) -> Config:
        source, target = self.encoder.get_config(), self.decoder.get_config()
        sizes = {
            "max_positional_encoding_input": source.pop("maximum_position_encoding"),
            "max_positional_encoding_target": target.pop("maximum_position_encoding"),
        }
        return {**source, **target, **sizes, **super().get_config()}


_CALL = (
    "input_sentence",
    "output_sentence",
    "training",
    "enc_padding_mask",
    "look_ahead_mask",
    "dec_padding_mask",
)


def _by_name(inputs: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return call arguments by name; `inputs` may be a dict of all of them, or both sentences."""
    if isinstance(inputs, dict):
        return {**inputs, **kwargs}
    sentences = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    return dict(zip(_CALL, (*sentences, *args), strict=False), **kwargs)
