"""The decoder layer of the course."""

import keras

from keras_transformer.course.course_layer import CourseLayer
from keras_transformer.course.course_masks import read_mask
from keras_transformer.layers.validation import freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class DecoderLayer(CourseLayer):
    """Self-attention, attention to the encoder's output, then a feed-forward network.

    It sees the future unless `look_ahead_mask` hides it. The constructor's
    arguments are those of `CourseLayer`.

    Call arguments:
        x: `(b, t, embedding_dim)`.
        enc_output: `(b, s, any width)`.
        training: whether dropout is on.
        look_ahead_mask: 1 (True) where a target position may be seen:
            `(1, t, t)`, `(t, t)`, `(b, t, t)` or `(b, 1, t, t)`. None: all.
        padding_mask: 1 (True) where the source has a token: `(b, 1, s)`,
            `(b, s)`, `(1, s)` or `(b, 1, 1, s)`. None: everywhere.

    Returns:
        The output `(b, t, embedding_dim)`, the weights of the self-attention
        `(b, h, t, t)`, and those of the attention to the encoder `(b, h, t, s)`.

    Raises:
        ValueError: an input of another width, a mask of another rank or size.

    Example:
        >>> layer = DecoderLayer(embedding_dim=4, num_heads=2, fully_connected_dim=8)
        >>> output, _, weights = layer(keras.ops.ones((1, 3, 4)), keras.ops.ones((1, 5, 7)), False)
        >>> tuple(output.shape), tuple(weights.shape)
        ((1, 3, 4), (1, 2, 3, 5))
    """

    def _create_attention(self) -> None:
        self.mha1 = self._attention("mha1")
        self.mha2 = self._attention("mha2")

    def _create_layernorms(self) -> None:
        self.layernorm1 = self._layernorm("layernorm1")
        self.layernorm2 = self._layernorm("layernorm2")
        self.layernorm3 = self._layernorm("layernorm3")

    def build(self, x_shape: Shape, enc_output_shape: Shape) -> None:
        self._check_width(x_shape)
        self.mha1.build(x_shape, x_shape)
        self.mha2.build(x_shape, enc_output_shape)
        for part in (self.layernorm1, self.layernorm2, self.ffn, self.layernorm3):
            part.build(x_shape)
        freeze_parts(self)

    def call(
        self,
        x: Tensor,
        enc_output: Tensor,
        training: bool | None = None,
        look_ahead_mask: Tensor | None = None,
        padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        self._check_width(x.shape)
        rows, length, _ = x.shape
        self_shape = (rows, self.num_heads, length, length)
        look_ahead_mask = read_mask("look_ahead_mask", look_ahead_mask, self_shape, "queries and keys")
        padding_mask = read_mask("padding_mask", padding_mask, (*self_shape[:3], enc_output.shape[1]), "keys")
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
        """Hand on the Keras mask of `x`; weights have none."""
        return previous_mask, None, None

    def compute_output_shape(self, x_shape: Shape, enc_output_shape: Shape) -> tuple[Shape, Shape, Shape]:
        rows, length, _ = x_shape
        scores_shape = (rows, self.num_heads, length)
        return tuple(x_shape), (*scores_shape, length), (*scores_shape, enc_output_shape[1])
