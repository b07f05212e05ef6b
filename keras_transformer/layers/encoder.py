"""The left half of Figure 1: the encoder layer, and the stack of them."""

from typing import Any

import keras

from keras_transformer._arguments import check_positive, check_vectors, freeze_parts
from keras_transformer.layers.block import _Block
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(_Block):
    """Self-attention, then a feed-forward network, each in a residual connection.

    "Attention Is All You Need", section 3.1. The constructor's arguments are those of `Encoder`, without the
    number of layers.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`, True (1) where there is a token.
        attention_mask: `(s, s)`, `(b, s, s)`, `(b, 1, s, s)` or `(b, h, s, s)`; True (1) where the first
            position may attend to the second.
        training: whether dropout is on.
        mask: the Keras mask, which Keras's wrappers pass in place of `padding_mask`.

    Returns:
        `(b, s, d)`.

    Raises:
        TypeError: see `Encoder`.
        ValueError: heads that do not divide the width; see also `Encoder`.

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
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        # Keras's wrappers know only the name `mask`.
        padding_mask = mask if padding_mask is None else padding_mask
        masks = {"attention_mask": attention_mask, "padding_mask": padding_mask}
        x = self._as_vectors(inputs, self.self_attention)
        x = self.self_attention_residual.around(
            lambda x: self.self_attention(x, x, **masks, training=training), x, training
        )
        return self.feed_forward_residual.around(
            lambda x: self.feed_forward(x, training=training), x, training
        )

    def _check(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> None:
        check_vectors(inputs.shape)
        self.self_attention.compute_output_spec(inputs, inputs, None, attention_mask, padding_mask)

    def attention_scores(
        self, inputs: Tensor, padding_mask: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the scores that the call of a built layer computes.

        The arguments are those of the call.

        Returns:
            `{"self_attention": (b, h, s, s)}`.
        """
        # The feed-forward network is left out: it comes after the attention.
        x = self.self_attention_residual.before(inputs)
        _, scores = self.self_attention(
            x, x, attention_mask=attention_mask, padding_mask=padding_mask, return_attention_scores=True
        )
        return {"self_attention": scores}


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(_Block):
    """`num_layers` encoder layers, one after the other.

    It takes vectors, not token ids, so anything of shape `(b, s, d)` may enter. A pre-norm stack ends with a
    normalization.

    Args:
        num_layers: the number of layers.
        num_heads: the number of heads, `h`; it must divide the input's width where `head_dim` is None.
        intermediate_dim: the inner width of the feed-forward networks, `f`.
        head_dim: the width of a head, `k`; the input's width divided by `num_heads` if None.
        activation: of the feed-forward networks; see `FeedForward`.
        gated: whether the feed-forward networks are gated; see `FeedForward`.
        use_bias: whether attention and feed-forward networks have biases.
        dropout: the rate of the dropout on each sub-layer's output.
        attention_dropout: the rate of the dropout on the attention scores.
        intermediate_dropout: the rate of the dropout inside the feed-forward networks.
        norm_first: True for pre-norm, False for the paper's post-norm.
        normalization: `layer`, as in the paper, or `rms`.
        layer_norm_epsilon: what normalization adds to the variance.
        num_key_value_heads: heads of the keys and values; `num_heads` if None.
        positions: of the self-attention: None, `rotary` or `relative`; see `MultiHeadAttention`. In a
            decoder `relative` is `relative_causal`.
        kernel_initializer: draws the kernels; `glorot_uniform` if None.
        bias_initializer: draws the biases; `zeros` if None.
        final_norm: whether the stack ends with a normalization; None for `norm_first`.
        **kwargs: these options, and `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, s, d)`.
        padding_mask: `(b, s)`, True (1) where there is a token.
        attention_mask: of every layer; see `EncoderLayer`.
        training: whether dropout is on.
        mask: the Keras mask, which Keras's wrappers pass in place of `padding_mask`.

    Returns:
        `(b, s, d)`.

    Raises:
        TypeError: a size that is not an integer, a rate that is not a number.
        ValueError: inputs without an axis of time, such as token ids, or of another width than the weights,
            sizes not above zero, rates outside [0, 1), names that are not known.
    """

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        intermediate_dim: int,
        *,
        final_norm: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, intermediate_dim, **kwargs)
        check_positive(num_layers=num_layers)
        self.num_layers = num_layers
        self.final_norm = final_norm

    def build(self, inputs_shape: Shape) -> None:
        self.layers = []
        for number in range(1, self.num_layers + 1):
            layer = EncoderLayer(**self._options(), dtype=self.dtype_policy, name=f"layer_{number}")
            layer.build(inputs_shape)
            self.layers.append(layer)
        self.final_normalization = self._final_normalization(inputs_shape, self.final_norm)
        freeze_parts(self)

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x, padding_mask = inputs, mask if padding_mask is None else padding_mask
        for layer in self.layers:
            x = layer(x, padding_mask=padding_mask, attention_mask=attention_mask, training=training)
        return self.final_normalization(x)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "num_layers": self.num_layers, "final_norm": self.final_norm}
