"""Decoder of Figure 1: the decoder layer and the stack of decoder layers."""

from typing import Any

import keras

from keras_transformer._arguments import check_vectors, check_width
from keras_transformer.layers.block import Scores, _Block, _rematerializable, _Stack
from keras_transformer.layers.built_parts import _freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(_Block):
    """Transformer decoder layer: causal self-attention, cross-attention and a feed-forward network.

    In the cross-attention, queries come from the decoder, keys and values from the encoder's output
    ("Attention Is All You Need", sections 3.1 and 3.2.3). The encoder's output may have another length and
    width than the decoder's input. If the first call has no `encoder_output`, there is no cross-attention.
    The constructor takes the arguments of `Encoder`, except `num_layers`, `final_norm` and `share_layers`.

    Call arguments:
        inputs: `(b, t, d)`.
        encoder_output: `(b, s, any width)`; None without cross-attention.
        padding_mask: `(b, t)`; True (1) where the target has a token.
        encoder_padding_mask: `(b, s)`; True (1) where the source has a token.
        attention_mask: `(t, t)`, `(b, t, t)`, `(b, 1, t, t)` or `(b, h, t, t)`; True (1) where the query may
            attend to the key. Combined with the causal mask.
        cross_attention_mask: `(t, s)`, `(b, t, s)`, `(b, 1, t, s)` or `(b, h, t, s)`; True (1) where the
            target position may attend to the source position.
        training: Whether to apply dropout.
        mask: The Keras mask of `inputs`, used if `padding_mask` is None; passed by Keras's wrapper layers.

    Returns:
        `(b, t, d)`.

    Raises:
        TypeError: See `Encoder`.
        ValueError: If `num_heads` does not divide the width, or `encoder_output` differs from the first call
            in presence or width; see also `Encoder`.

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
        # Keys never come after the query, so all buckets are for earlier keys, as in T5.
        positions = "relative_causal" if self.positions == "relative" else self.positions
        self.self_attention = self._attention("self_attention", inputs_shape, inputs_shape, positions)
        self.self_attention_residual = self._residual("self_attention_residual", inputs_shape)
        self.cross_attention = None
        if encoder_output_shape is not None:
            # Without positions: distances between source and target positions have no meaning.
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
        mask: Tensor | None = None,
    ) -> Tensor:
        padding_mask = mask if padding_mask is None else padding_mask
        masks = (padding_mask, encoder_padding_mask, attention_mask, cross_attention_mask)
        return self.compute(inputs, encoder_output, *masks, training=training)

    def compute(
        self,
        inputs: Tensor,
        encoder_output: Tensor | None = None,
        padding_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
        *,
        training: bool | None = None,
        scores: Scores | None = None,
    ) -> Tensor:
        """Return the output of a call; add attention scores to `scores`, by name, unless it is None."""
        self.check_encoder_output(encoder_output, cross_attention_mask)
        x = self._as_vectors(inputs, self.self_attention, padding_mask)

        # Causal self-attention (b, t, d) -> (b, t, d): a position must not see the token that it predicts
        normalized = self.self_attention_residual.normalize(x, training)
        attended = self._attend(
            self.self_attention,
            normalized,
            normalized,
            scores,
            attention_mask=attention_mask,
            padding_mask=padding_mask,
            use_causal_mask=True,
            training=training,
        )
        x = self.self_attention_residual(x, attended, training=training)

        # Cross-attention, queries (b, t, d), keys and values (b, s, any width) -> (b, t, d)
        if self.cross_attention is not None:
            normalized = self.cross_attention_residual.normalize(x, training)
            attended = self._attend(
                self.cross_attention,
                normalized,
                encoder_output,
                scores,
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
        mask: Tensor | None = None,
    ) -> keras.KerasTensor:
        """Check the arguments as a call does, and return the symbolic output; called by Keras."""
        check_vectors(inputs.shape)
        if self.built:
            self.check_encoder_output(encoder_output, cross_attention_mask)
            self.self_attention.compute_output_spec(inputs, inputs, None, attention_mask, padding_mask)
            if self.cross_attention is not None:
                masks = cross_attention_mask, encoder_padding_mask
                self.cross_attention.compute_output_spec(inputs, encoder_output, None, *masks)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def check_encoder_output(
        self, encoder_output: Tensor | None, cross_attention_mask: Tensor | None = None
    ) -> None:
        """Raise ValueError unless the encoder's output matches the one that the layer was built with."""
        if (encoder_output is None) != (self.cross_attention is None):
            wanted = "None" if self.cross_attention is None else "a tensor (b, s, any width)"
            raise ValueError(
                f"`encoder_output` must be {wanted}, as when the layer was built. "
                f"Received: encoder_output={_shape_description(encoder_output)}."
            )
        if self.cross_attention is not None and encoder_output is not None:
            check_width(self.cross_attention.value_dense.kernel.shape[0], encoder_output=encoder_output.shape)
        elif cross_attention_mask is not None:
            raise ValueError(
                "`cross_attention_mask` must be None without cross-attention. "
                f"Received: cross_attention_mask={_shape_description(cross_attention_mask)}."
            )


def _shape_description(tensor: Tensor | None) -> str:
    """Return the description of a tensor in an error message."""
    return "None" if tensor is None else f"a tensor of shape {tuple(tensor.shape)}"


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(_Stack):
    """Transformer decoder: a stack of decoder layers that attend to the same encoder output.

    If the first call has no `encoder_output`, there is no cross-attention, as in a decoder-only model. The
    option `positions="relative"` means `relative_causal`.

    Args:
        num_layers: Number of layers.
        num_heads: See `Encoder`.
        intermediate_dim: See `Encoder`.
        **options: The other arguments of `Encoder`.

    Call arguments:
        inputs: `(b, t, d)`.
        encoder_output: `(b, s, any width)`; None without cross-attention.
        padding_mask: `(b, t)`; True (1) where the target has a token.
        encoder_padding_mask: `(b, s)`; True (1) where the source has a token.
        attention_mask: Used in the self-attention of every layer; see `DecoderLayer`.
        cross_attention_mask: Used in the cross-attention of every layer; see `DecoderLayer`.
        training: Whether to apply dropout.
        mask: See `DecoderLayer`.

    Returns:
        `(b, t, d)`.

    Raises:
        TypeError: See `Encoder`.
        ValueError: See `Encoder` and `DecoderLayer`.
    """

    def __init__(self, num_layers: int, num_heads: int, intermediate_dim: int, **options: Any) -> None:
        super().__init__(num_layers, num_heads, intermediate_dim, **options)

    def build(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> None:
        # Every layer attends to the same encoder output.
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
        mask: Tensor | None = None,
    ) -> Tensor:
        # By name, because Keras takes no list as a positional argument of a layer.
        return self.compute(
            inputs,
            encoder_output,
            padding_mask=mask if padding_mask is None else padding_mask,
            encoder_padding_mask=encoder_padding_mask,
            attention_mask=attention_mask,
            cross_attention_mask=cross_attention_mask,
            training=training,
        )
