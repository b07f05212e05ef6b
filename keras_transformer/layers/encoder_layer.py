"""One layer of the encoder: the left half of Figure 1."""

import keras

from keras_transformer.layers.block import Block
from keras_transformer.layers.validation import freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(Block):
    """Self-attention, then a feed-forward network, each in a residual connection.

    "Attention Is All You Need", section 3.1. The constructor's arguments are
    those of `Block`.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`, True (1) where there is a token.
        attention_mask: `(s, s)`, `(b, s, s)`, `(b, 1, s, s)` or `(b, h, s, s)`;
            True (1) where the first position may attend to the second.
        return_attention_scores: whether the scores are returned too.
        training: whether dropout is on.
        mask: the Keras mask, by which Keras's wrappers hand over what `padding_mask` says.

    Returns:
        `(b, s, d)`; with `return_attention_scores` a pair of that and
        `{"self_attention": (b, h, s, s)}`.

    Raises:
        ValueError: heads that do not divide the width; see also `Block`.

    Example:
        >>> tuple(EncoderLayer(2, 16)(keras.ops.zeros((1, 5, 8))).shape)
        (1, 5, 8)
    """

    def build(self, inputs_shape: Shape) -> None:
        self.self_attention = self._attention("self_attention", inputs_shape, inputs_shape, self.positions)
        self.self_attention_residual = self._residual("self_attention_residual", inputs_shape)
        self.feed_forward = self._feed_forward("feed_forward", inputs_shape)
        self.feed_forward_residual = self._residual("feed_forward_residual", inputs_shape)
        freeze_parts(self)

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        padding_mask = mask if padding_mask is None else padding_mask
        inputs = self._vectors(inputs, self.self_attention)
        x = self.self_attention_residual.before(inputs)
        attended, scores = self._attend(
            self.self_attention,
            x,
            x,
            attention_mask=attention_mask,
            padding_mask=padding_mask,
            need_scores=return_attention_scores,
            training=training,
        )
        x = self.self_attention_residual(inputs, attended, training=training)
        transformed = self.feed_forward(self.feed_forward_residual.before(x), training=training)
        x = self.feed_forward_residual(x, transformed, training=training)
        return (x, {"self_attention": scores}) if return_attention_scores else x

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)
