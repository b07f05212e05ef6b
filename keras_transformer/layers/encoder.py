"""The stack of encoder layers."""

from typing import Any

import keras

from keras_transformer.arguments import check_positive, freeze_parts
from keras_transformer.layers.block import Block
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


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(Block):
    """`num_layers` encoder layers, one after the other.

    It takes vectors, not token ids, so anything of shape `(b, s, d)` may enter.
    A pre-norm stack ends with a normalisation.

    Args:
        num_layers: the number of layers.
        num_heads: see `Block`, as for the other arguments.
        intermediate_dim: see `Block`.
        **kwargs: the options of `Block`.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`, True (1) where there is a token.
        attention_mask: of every layer; see `EncoderLayer`.
        return_attention_scores: whether the scores are returned too.
        training: whether dropout is on.
        mask: the Keras mask, by which Keras's wrappers hand over what `padding_mask` says.

    Returns:
        `(b, s, d)`; with `return_attention_scores` a pair of that and a dict
        of `layer_{i}/self_attention`, from 1, to scores `(b, h, s, s)`.
    """

    def __init__(self, num_layers: int, num_heads: int, intermediate_dim: int, **kwargs: Any) -> None:
        super().__init__(num_heads, intermediate_dim, **kwargs)
        check_positive(num_layers=num_layers)
        self.num_layers = num_layers

    def build(self, inputs_shape: Shape) -> None:
        self.layers = []
        for number in range(1, self.num_layers + 1):
            layer = EncoderLayer(**self.block_options(), dtype=self.dtype_policy, name=f"layer_{number}")
            layer.build(inputs_shape)
            self.layers.append(layer)
        self.final_normalization = self._final_normalization(inputs_shape)
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
        x, all_scores = inputs, {}
        for layer in self.layers:
            x, scores = self._attend(
                layer,
                x,
                padding_mask=padding_mask,
                attention_mask=attention_mask,
                need_scores=return_attention_scores,
                training=training,
            )
            all_scores.update({f"{layer.name}/{name}": s for name, s in (scores or {}).items()})
        x = self.final_normalization(x)
        return (x, all_scores) if return_attention_scores else x

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_layers": self.num_layers}
