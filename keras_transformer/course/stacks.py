"""The encoder and the decoder of the course: from token ids to vectors."""

from typing import Any

import keras
from keras import ops

from keras_transformer._arguments import check_positive, check_rates, freeze_parts
from keras_transformer.course.functions import _over_keys, positional_encoding
from keras_transformer.course.layers import DecoderLayer, EncoderLayer, _PositionalCall
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.types import Shape, Tensor


class _SentenceStack(_PositionalCall):
    """The options of encoder and decoder, and what both begin with: the embedded sentence."""

    def __init__(
        self,
        num_layers: int,
        embedding_dim: int,
        num_heads: int,
        fully_connected_dim: int,
        dropout_rate: float,
        layernorm_eps: float,
        vocab_size: int,
        maximum_position_encoding: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_layers=num_layers, maximum_position_encoding=maximum_position_encoding)
        check_rates(dropout_rate=dropout_rate)
        self.num_layers = num_layers
        self.embedding_dim = embedding_dim
        self.num_heads = num_heads
        self.fully_connected_dim = fully_connected_dim
        self.maximum_position_encoding = maximum_position_encoding
        self.dropout_rate = dropout_rate
        self.layernorm_eps = layernorm_eps
        self.supports_masking = True
        # The course hands its masks to each layer.
        options = {"mask_zero": False, "dtype": self.dtype_policy, "name": "embedding"}
        self.embedding = TokenEmbedding(vocab_size, embedding_dim, **options)
        # An array, since a tensor made here would belong to the graph in which the layer is made.
        self.pos_encoding = ops.convert_to_numpy(
            positional_encoding(maximum_position_encoding, embedding_dim)
        )
        self.dropout = keras.layers.Dropout(dropout_rate, dtype=self.dtype_policy)

    def embed(self, token_ids: Tensor, training: bool | None = None) -> Tensor:
        """Look up scaled vectors of token ids `(b, t)`, add their positions, and drop out: `(b, t, d)`."""
        self._check_length(token_ids.shape[1])
        # In float32: in half precision neighbouring positions would become equal.
        vectors = ops.cast(self.embedding(token_ids), "float32")
        # Looked up rather than sliced: a slice silently ends with the table. XLA would take the last
        # encoding for all positions that are beyond it, so those are NaN.
        positions = ops.arange(ops.shape(token_ids)[1])
        encoding = ops.take(ops.convert_to_tensor(self.pos_encoding), positions, axis=1)  # (1, t, d)
        is_known = positions < self.maximum_position_encoding
        encoding = ops.where(is_known[None, :, None], encoding, ops.cast(float("nan"), encoding.dtype))
        return self.dropout(ops.cast(vectors + encoding, self.compute_dtype), training=training)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return no Keras mask: in the course every call is given its masks."""

    def _build_embedding(self, token_ids_shape: Shape) -> Shape:
        """Build the table, and return the shape of what `embed` returns."""
        self._check_length(token_ids_shape[1])
        self.embedding.build(token_ids_shape)
        return (*token_ids_shape, self.embedding_dim)

    def _check_length(self, length: int | None) -> None:
        # A size that is not known is None, or a symbol while JAX infers shapes.
        if isinstance(length, int) and length > self.maximum_position_encoding:
            raise ValueError(
                "A sentence must not be longer than `maximum_position_encoding`. Received: "
                f"length={length}, maximum_position_encoding={self.maximum_position_encoding}."
            )


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class Encoder(_SentenceStack):
    """Embeds the source sentence and runs it through `num_layers` encoder layers.

    Args:
        num_layers: the number of layers.
        embedding_dim, num_heads, fully_connected_dim, layernorm_eps: see `EncoderLayer`.
        input_vocab_size: the number of token ids of the source, `v`.
        maximum_position_encoding: the longest source.
        dropout_rate: of the layers, and of the dropout on the embedded sentence.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        x: integers `(b, s)`.
        training: whether dropout is on.
        mask: see `EncoderLayer`.

    Returns:
        `(b, s, embedding_dim)`.

    Raises:
        TypeError: a size that is not an integer.
        ValueError: sizes not above zero, a rate outside [0, 1), a sentence longer than
            `maximum_position_encoding`, a mask of another rank or size.
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
        layer = (embedding_dim, num_heads, fully_connected_dim, dropout_rate, layernorm_eps)
        super().__init__(num_layers, *layer, input_vocab_size, maximum_position_encoding, **kwargs)
        self.input_vocab_size = input_vocab_size
        self.enc_layers = [
            EncoderLayer(*layer, dtype=self.dtype_policy, name=f"encoder_layer{i}")
            for i in range(1, num_layers + 1)
        ]

    def build(self, x_shape: Shape) -> None:
        vectors_shape = self._build_embedding(x_shape)
        for layer in self.enc_layers:
            layer.build(vectors_shape)
        freeze_parts(self)

    def call(self, x: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        x, mask = self.embed(x, training), _over_keys(mask)
        for layer in self.enc_layers:
            x = layer(x, training, mask)
        return x

    # Keras would infer the shape from a sentence of 83 tokens, which may be too long.
    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return (*x_shape, self.embedding_dim)


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class Decoder(_SentenceStack):
    """Embeds the target sentence and runs it through `num_layers` decoder layers.

    The constructor's arguments and errors are those of `Encoder`, with `target_vocab_size`, the number
    of token ids of the target.

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
        layer = (embedding_dim, num_heads, fully_connected_dim, dropout_rate, layernorm_eps)
        super().__init__(num_layers, *layer, target_vocab_size, maximum_position_encoding, **kwargs)
        self.target_vocab_size = target_vocab_size
        self.dec_layers = [
            DecoderLayer(*layer, dtype=self.dtype_policy, name=f"decoder_layer{i}")
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
        rows, length = x_shape
        shapes: dict[str, Shape] = {}
        for layer in self.dec_layers:
            shapes[f"{layer.name}_block1_self_att"] = (rows, self.num_heads, length, length)
            shapes[f"{layer.name}_block2_decenc_att"] = (rows, self.num_heads, length, enc_output_shape[1])
        return (*x_shape, self.embedding_dim), shapes
