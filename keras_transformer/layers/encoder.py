"""Encoder of Figure 1: the encoder layer and the stack of encoder layers."""

from typing import Any

import keras

from keras_transformer._arguments import check_vectors
from keras_transformer.layers.block import Scores, _Block, _rematerializable, _Stack
from keras_transformer.layers.built_parts import _freeze_parts
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(_Block):
    """Transformer encoder layer: self-attention and a feed-forward network.

    Each of the two has a residual connection ("Attention Is All You Need", section 3.1). The constructor
    takes the arguments of `Encoder`, except `num_layers`, `final_norm` and `share_layers`.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`; True (1) where there is a token.
        attention_mask: `(s, s)`, `(b, s, s)`, `(b, 1, s, s)` or `(b, h, s, s)`; True (1) where the query
            position may attend to the key position.
        training: Whether to apply dropout.
        mask: The Keras mask, used if `padding_mask` is None; passed by Keras's wrapper layers.

    Returns:
        `(b, s, d)`.

    Raises:
        TypeError: See `Encoder`.
        ValueError: If `num_heads` does not divide the width; see also `Encoder`.

    Example:
        >>> tuple(EncoderLayer(2, 16)(keras.ops.zeros((1, 5, 8))).shape)
        (1, 5, 8)
    """

    # Python's errors for missing arguments name the class that has the constructor.
    def __init__(self, num_heads: int, intermediate_dim: int, **options: Any) -> None:
        super().__init__(num_heads, intermediate_dim, **options)

    def build(self, inputs_shape: Shape) -> None:
        self.self_attention = self._attention("self_attention", inputs_shape, inputs_shape, self.positions)
        self.self_attention_residual = self._residual("self_attention_residual", inputs_shape)
        self.feed_forward = self._feed_forward("feed_forward", inputs_shape)
        self.feed_forward_residual = self._residual("feed_forward_residual", inputs_shape)
        _freeze_parts(self)

    @_rematerializable
    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        # Keras's wrapper layers pass the mask as `mask`.
        padding_mask = mask if padding_mask is None else padding_mask
        return self.compute(inputs, padding_mask, attention_mask, training=training)

    def compute(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        training: bool | None = None,
        scores: Scores | None = None,
    ) -> Tensor:
        """Return the output of a call; add attention scores to `scores`, by name, unless it is None."""
        x = self._as_vectors(inputs, self.self_attention, padding_mask)

        # Self-attention (b, s, d) -> (b, s, d)
        normalized = self.self_attention_residual.normalize(x, training)
        attended = self._attend(
            self.self_attention,
            normalized,
            normalized,
            scores,
            attention_mask=attention_mask,
            padding_mask=padding_mask,
            training=training,
        )
        x = self.self_attention_residual(x, attended, training=training)

        # Feed-forward network (b, s, d) -> (b, s, d)
        normalized = self.feed_forward_residual.normalize(x, training)
        transformed = self.feed_forward(normalized, training=training)
        return self.feed_forward_residual(x, transformed, training=training)

    def compute_output_spec(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> keras.KerasTensor:
        """Check the arguments as a call does, and return the symbolic output; called by Keras."""
        check_vectors(inputs.shape)
        if self.built:
            self.self_attention.compute_output_spec(inputs, inputs, None, attention_mask, padding_mask)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(_Stack):
    """Transformer encoder: a stack of encoder layers.

    The inputs are vectors, not token ids.

    Args:
        num_layers: Number of layers.
        num_heads: Number of attention heads, `h`. Must divide the width of the input unless `head_dim` is
            given.
        intermediate_dim: Inner width of the feed-forward networks, `f`.
        final_norm: Whether the stack ends with a normalization. Defaults to the option `norm_first`.
        share_layers: Whether all layers share their weights (Dehghani et al. 2019). Defaults to False.
        positions: Position information in the self-attention: None, `rotary`, `relative`, `relative_keys` or
            `relative_sinusoidal`; see `MultiHeadAttention`.
        kernel_initializer: Initializer of the kernels. Defaults to `glorot_uniform`.
        bias_initializer: Initializer of the biases. Defaults to `zeros`.
        **options: The other fields of `LayerConfig`, and `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`; True (1) where there is a token.
        attention_mask: Used in every layer; see `EncoderLayer`.
        training: Whether to apply dropout.
        mask: The Keras mask, used if `padding_mask` is None; passed by Keras's wrapper layers.

    Returns:
        `(b, s, d)`.

    Raises:
        TypeError: If an option is unknown, a size is not an integer, or a rate is not a number.
        ValueError: If the inputs are not of shape `(b, s, d)` with the width of the weights, or an option is
            out of its range.
    """

    def __init__(self, num_layers: int, num_heads: int, intermediate_dim: int, **options: Any) -> None:
        super().__init__(num_layers, num_heads, intermediate_dim, **options)

    def build(self, inputs_shape: Shape) -> None:
        self._build_layers(EncoderLayer, inputs_shape)

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        padding_mask = mask if padding_mask is None else padding_mask
        # By name, because Keras takes no list as a positional argument of a layer.
        return self.compute(
            inputs, padding_mask=padding_mask, attention_mask=attention_mask, training=training
        )
