"""What encoder and decoder layers and their stacks have in common: options and parts."""

from typing import Any

import keras
from keras import ops

from keras_transformer.arguments import (
    check_choice,
    check_groups,
    check_heads,
    check_positive,
    check_rates,
    check_vectors,
    check_width,
    get_activation,
    known_width,
)
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import POSITIONS, MultiHeadAttention, ScoredLayer
from keras_transformer.layers.normalization import NORMALIZATIONS, make_normalization
from keras_transformer.layers.residual import Residual
from keras_transformer.types import Shape, Tensor


class Block(ScoredLayer):
    """The base of `EncoderLayer`, `DecoderLayer`, `Encoder` and `Decoder`.

    Args:
        num_heads: the number of heads, `h`; it must divide the input's width.
        intermediate_dim: the inner width of the feed-forward network, `f`.
        activation: of the feed-forward network.
        gated: whether the feed-forward network is gated; see `FeedForward`.
        dropout: the rate of the dropout on each sub-layer's output.
        attention_dropout: the rate of the dropout on the attention scores.
        intermediate_dropout: the rate of the dropout inside the feed-forward network.
        norm_first: True for pre-norm, False for the paper's post-norm.
        normalization: `layer`, as in the paper, or `rms`.
        layer_norm_epsilon: what normalisation adds to the variance.
        num_key_value_heads: heads of the keys and values; `num_heads` if None.
        positions: of the self-attention: None, `rotary` or `relative`; see `MultiHeadAttention`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Raises:
        TypeError: inputs that are token ids, integers of rank 2.
        ValueError: inputs without an axis of time or of another width than the weights, sizes not above
            zero, rates outside [0, 1), names that are not known.
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        *,
        activation: Any = "relu",
        gated: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        intermediate_dropout: float = 0.0,
        norm_first: bool = False,
        normalization: str = "layer",
        layer_norm_epsilon: float = 1e-6,
        num_key_value_heads: int | None = None,
        positions: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_heads=num_heads, intermediate_dim=intermediate_dim)
        check_rates(
            dropout=dropout,
            attention_dropout=attention_dropout,
            intermediate_dropout=intermediate_dropout,
        )
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        check_groups(num_key_value_heads, num_heads)
        check_choice(NORMALIZATIONS, normalization=normalization)
        check_choice(POSITIONS, positions=positions)
        self.activation = get_activation(activation)
        self.gated = gated
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.intermediate_dropout = intermediate_dropout
        self.norm_first = norm_first
        self.normalization = normalization
        self.layer_norm_epsilon = layer_norm_epsilon
        self.num_key_value_heads = num_key_value_heads
        self.positions = positions
        self.supports_masking = True

    def __call__(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; token ids are refused here, before Keras takes their length for a width.

        Args:
            inputs: `(b, t, d)`.
            *args: the other arguments of `call`.
            **kwargs: likewise.

        Returns:
            What `call` returns.

        Raises:
            TypeError: integers of rank 2.
            ValueError: other numbers of rank 2.
        """
        check_vectors(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def block_options(self) -> dict[str, Any]:
        """Give the options as keyword arguments.

        Returns:
            Each constructor argument's name and value.
        """
        return {
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "activation": keras.activations.serialize(self.activation),
            "gated": self.gated,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "intermediate_dropout": self.intermediate_dropout,
            "norm_first": self.norm_first,
            "normalization": self.normalization,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "num_key_value_heads": self.num_key_value_heads,
            "positions": self.positions,
        }

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.block_options()}

    def _vectors(self, inputs: Tensor, attention: MultiHeadAttention) -> Tensor:
        """Refuse another width than that of the weights, and make numbers of integers."""
        check_width(attention.query_kernel.shape[0], inputs=inputs)
        is_float = keras.backend.is_float_dtype(inputs.dtype)
        return inputs if is_float else ops.cast(inputs, self.compute_dtype)

    def _attention(
        self, name: str, query_shape: Shape, value_shape: Shape, positions: str | None = None
    ) -> MultiHeadAttention:
        hidden_dim = known_width(inputs=query_shape)
        check_heads(self.num_heads, hidden_dim)
        attention = MultiHeadAttention(
            self.num_heads,
            hidden_dim // self.num_heads,
            dropout=self.attention_dropout,
            num_key_value_heads=self.num_key_value_heads,
            positions=positions,
            dtype=self.dtype_policy,
            name=name,
        )
        attention.build(query_shape, value_shape)
        return attention

    def _feed_forward(self, name: str, shape: Shape) -> FeedForward:
        feed_forward = FeedForward(
            self.intermediate_dim,
            activation=self.activation,
            gated=self.gated,
            dropout=self.intermediate_dropout,
            dtype=self.dtype_policy,
            name=name,
        )
        feed_forward.build(shape)
        return feed_forward

    def _residual(self, name: str, shape: Shape) -> Residual:
        residual = Residual(
            norm_first=self.norm_first,
            dropout=self.dropout,
            normalization=self.normalization,
            layer_norm_epsilon=self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=name,
        )
        residual.build(shape)
        return residual

    def _final_normalization(self, shape: Shape) -> keras.layers.Layer:
        """Normalise what a stack of pre-norm layers leaves unnormalised."""
        layer: keras.layers.Layer = keras.layers.Identity(dtype=self.dtype_policy, name="final_normalization")
        if self.norm_first:
            layer = make_normalization(
                self.normalization,
                epsilon=self.layer_norm_epsilon,
                dtype=self.dtype_policy,
                name="final_normalization",
            )
        layer.build(shape)
        return layer
