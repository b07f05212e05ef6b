"""The encoder layer of the course."""

import keras

from keras_transformer.course.course_layer import CourseLayer
from keras_transformer.course.course_masks import read_mask
from keras_transformer.layers.validation import freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer.course")
class EncoderLayer(CourseLayer):
    """Self-attention, then a feed-forward network, each added and normalized.

    The constructor's arguments are those of `CourseLayer`.

    Call arguments:
        x: `(b, s, embedding_dim)`.
        training: whether dropout is on.
        mask: 1 (True) where the key is a token: `(b, s)`, `(1, s)`,
            `(b, 1, s)`, `(b, 1, 1, s)`, or one for each query, `(1, s, s)`. If
            None, the Keras mask of `x` is read.

    Returns:
        `(b, s, embedding_dim)`.

    Raises:
        ValueError: an input of another width, a mask of another rank or size.

    Example:
        >>> layer = EncoderLayer(embedding_dim=4, num_heads=2, fully_connected_dim=8)
        >>> mask = keras.ops.convert_to_tensor([[1, 1, 0]])
        >>> tuple(layer(keras.ops.ones((1, 3, 4)), True, mask).shape)
        (1, 3, 4)
    """

    def _create_attention(self) -> None:
        self.mha = self._attention("mha")

    def _create_layernorms(self) -> None:
        self.layernorm1 = self._layernorm("layernorm1")
        self.layernorm2 = self._layernorm("layernorm2")

    def build(self, x_shape: Shape) -> None:
        self._check_width(x_shape)
        self.mha.build(x_shape, x_shape)
        for part in (self.layernorm1, self.ffn, self.layernorm2):
            part.build(x_shape)
        freeze_parts(self)

    def call(self, x: Tensor, training: bool | None = None, mask: Tensor | None = None) -> Tensor:
        self._check_width(x.shape)
        rows, length, _ = x.shape
        mask = read_mask("mask", mask, (rows, self.num_heads, length, length), "keys")
        attn_output = self.mha(x, x, x, attention_mask=mask, training=training)
        out1 = self.layernorm1(x + attn_output)
        ffn_output = self.dropout_ffn(self.ffn(out1), training=training)
        return self.layernorm2(out1 + ffn_output)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        """Hand on a padding mask `(b, s)`; one for scores fits no vectors."""
        is_padding_mask = len(getattr(previous_mask, "shape", ())) == 2
        return previous_mask if is_padding_mask else None

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return tuple(x_shape)
