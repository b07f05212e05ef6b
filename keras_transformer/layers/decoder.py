"""The right half of Figure 1: the decoder layer, and the stack of them."""

from typing import Any

import keras

from keras_transformer._arguments import check_vectors, check_width
from keras_transformer.layers.block import _Block, _rematerializable, _Stack
from keras_transformer.layers.built_parts import _freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(_Block):
    """Causal self-attention, cross-attention, then a feed-forward network.

    "Attention Is All You Need", section 3.1. In cross-attention the queries come from the decoder, keys and
    values from the encoder's final output, which may have another length and another width. A layer that is
    built without an encoder's output has no cross-attention: the layer of a decoder-only model. The
    constructor's arguments are those of `Decoder`, without the number of layers.

    Call arguments:
        inputs: `(b, t, d)`.
        encoder_output: `(b, s, any width)`; None without cross-attention.
        padding_mask: `(b, t)`, True (1) where the target has a token.
        encoder_padding_mask: `(b, s)`, True (1) where the source has a token.
        attention_mask: of the self-attention, besides the causal one; `(t, t)`, `(b, t, t)`, `(b, 1, t, t)`
            or `(b, h, t, t)`.
        cross_attention_mask: of the cross-attention, likewise over `(t, s)`.
        training: whether dropout is on.

    Returns:
        `(b, t, d)`.

    Raises:
        TypeError: see `Decoder`.
        ValueError: heads that do not divide the width; an encoder's output where the layer was built without
            one, or none where it was built with one, or of another width; see also `Decoder`.

    Example:
        >>> x, memory = keras.ops.zeros((1, 3, 8)), keras.ops.zeros((1, 5, 16))
        >>> tuple(DecoderLayer(2, 16)(x, memory).shape)
        (1, 3, 8)
        >>> tuple(DecoderLayer(2, 16)(x).shape)
        (1, 3, 8)
    """

    def __init__(self, num_heads: int, intermediate_dim: int, **options: Any) -> None:
        super().__init__(num_heads, intermediate_dim, **options)

    def build(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> None:
        # No key comes after the query: as in T5, all buckets are for those before it.
        positions = "relative_causal" if self.positions == "relative" else self.positions
        self.self_attention = self._attention("self_attention", inputs_shape, inputs_shape, positions)
        self.self_attention_residual = self._residual("self_attention_residual", inputs_shape)
        self.cross_attention = None
        if encoder_output_shape is not None:
            # Without positions: those of source and target do not count from the same start.
            self.cross_attention = self._attention("cross_attention", inputs_shape, encoder_output_shape)
            self.cross_attention_residual = self._residual("cross_attention_residual", inputs_shape)
        self.feed_forward = self._feed_forward("feed_forward", inputs_shape)
        self.feed_forward_residual = self._residual("feed_forward_residual", inputs_shape)
        _freeze_parts(self)

    @_rematerializable
    def call(
        self,
        inputs: Tensor,
        encoder_output: Tensor | None = None,
        padding_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        self.check_encoder_output(encoder_output, cross_attention_mask)
        x = self._as_vectors(inputs, self.self_attention, padding_mask)

        # Masked self-attention (b, t, d) -> (b, t, d), causal whatever the masks say: a position must not see
        # the token that it has to predict.
        normalized = self.self_attention_residual.normalize(x, training)
        attended = self.self_attention(
            normalized,
            normalized,
            attention_mask=attention_mask,
            padding_mask=padding_mask,
            use_causal_mask=True,
            training=training,
        )
        x = self.self_attention_residual(x, attended, training=training)

        # Cross-attention, queries (b, t, d), keys and values (b, s, any width) -> (b, t, d)
        if self.cross_attention is not None:
            normalized = self.cross_attention_residual.normalize(x, training)
            attended = self.cross_attention(
                normalized,
                encoder_output,
                attention_mask=cross_attention_mask,
                padding_mask=encoder_padding_mask,
                training=training,
            )
            x = self.cross_attention_residual(x, attended, training=training)

        # Feed-forward network (b, t, d) -> (b, t, d)
        normalized = self.feed_forward_residual.normalize(x, training)
        transformed = self.feed_forward(normalized, training=training)
        return self.feed_forward_residual(x, transformed, training=training)

    def compute_output_spec(
        self,
        inputs: Tensor,
        encoder_output: Tensor | None = None,
        padding_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> keras.KerasTensor:
        """Return the symbolic output, where an eager call would not raise; Keras calls this."""
        check_vectors(inputs.shape)
        self.check_encoder_output(encoder_output, cross_attention_mask)
        self.self_attention.compute_output_spec(inputs, inputs, None, attention_mask, padding_mask)
        if self.cross_attention is not None:
            masks = cross_attention_mask, encoder_padding_mask
            self.cross_attention.compute_output_spec(inputs, encoder_output, None, *masks)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def attention_scores(
        self,
        inputs: Tensor,
        encoder_output: Tensor | None = None,
        padding_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the scores that the call of a built layer computes.

        The arguments are those of the call.

        Returns:
            `{"self_attention": (b, h, t, t), "cross_attention": (b, h, t, s)}`, the second one only where
            there is an encoder's output.
        """
        self.check_encoder_output(encoder_output, cross_attention_mask)
        # The feed-forward network is left out: it comes after both attentions.
        x, scores = self.self_attention_residual.normalize(inputs), {}
        attended, scores["self_attention"] = self.self_attention(
            x,
            x,
            attention_mask=attention_mask,
            padding_mask=padding_mask,
            use_causal_mask=True,
            return_attention_scores=True,
        )
        if self.cross_attention is not None:
            x = self.self_attention_residual(inputs, attended)
            _, scores["cross_attention"] = self.cross_attention(
                self.cross_attention_residual.normalize(x),
                encoder_output,
                attention_mask=cross_attention_mask,
                padding_mask=encoder_padding_mask,
                return_attention_scores=True,
            )
        return scores

    def check_encoder_output(
        self, encoder_output: Tensor | None, cross_attention_mask: Tensor | None = None
    ) -> None:
        """Raise ValueError for what the layer was not built for, and for another width."""
        if (encoder_output is None) != (self.cross_attention is None):
            wanted = "None" if self.cross_attention is None else "a tensor (b, s, any width)"
            raise ValueError(
                f"`encoder_output` must be {wanted}, as when the layer was built. "
                f"Received: encoder_output={_described(encoder_output)}."
            )
        if self.cross_attention is not None and encoder_output is not None:
            check_width(self.cross_attention.value_dense.kernel.shape[0], encoder_output=encoder_output.shape)
        elif cross_attention_mask is not None:
            raise ValueError(
                "`cross_attention_mask` must be None without cross-attention. "
                f"Received: cross_attention_mask={_described(cross_attention_mask)}."
            )


def _described(tensor: Tensor | None) -> str:
    """Return what a message tells of a tensor."""
    return "None" if tensor is None else f"a tensor of shape {tuple(tensor.shape)}"


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(_Stack):
    """`num_layers` decoder layers, each attending to the same encoder output.

    A pre-norm stack ends with a normalization. A stack that is built without an encoder's output has no
    cross-attention: that of a decoder-only model.

    Args:
        num_layers: Number of layers.
        num_heads: See `Encoder`.
        intermediate_dim: See `Encoder`.
        **options: The options of `Encoder`, and `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        encoder_output: `(b, s, any width)`; None without cross-attention.
        padding_mask: `(b, t)`, True (1) where the target has a token.
        encoder_padding_mask: `(b, s)`, True (1) where the source has a token.
        attention_mask: of the self-attention of every layer; see `DecoderLayer`.
        cross_attention_mask: of the cross-attention of every layer; likewise.
        training: whether dropout is on.

    Returns:
        `(b, t, d)`.

    Raises:
        TypeError: see `Encoder`.
        ValueError: see `Encoder` and `DecoderLayer`.
    """

    def __init__(self, num_layers: int, num_heads: int, intermediate_dim: int, **options: Any) -> None:
        super().__init__(num_layers, num_heads, intermediate_dim, **options)

    def build(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> None:
        # All layers attend to the output of the last encoder layer, and so have its width.
        self._build_layers(DecoderLayer, inputs_shape, encoder_output_shape)

    def call(
        self,
        inputs: Tensor,
        encoder_output: Tensor | None = None,
        padding_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        x = inputs
        for layer in self.layers:
            x = layer(
                x,
                encoder_output,
                padding_mask=padding_mask,
                encoder_padding_mask=encoder_padding_mask,
                attention_mask=attention_mask,
                cross_attention_mask=cross_attention_mask,
                training=training,
            )
        return self.final_normalization(x)
