"""The options and the parts that encoder layers, decoder layers and their stacks have in common."""

import inspect
from collections.abc import Callable
from typing import Any, Self

import keras
from keras import ops

from keras_transformer._arguments import (
    check_call,
    check_choice,
    check_divides,
    check_names,
    check_number,
    check_positive,
    check_rates,
    check_vectors,
    check_width,
    get_activation,
    known_width,
    serialize_activation,
)
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import POSITIONS, MultiHeadAttention, _check_optional_sizes
from keras_transformer.layers.normalization import NORMALIZATIONS, Dropout, _make_normalization
from keras_transformer.types import Config, Shape, Tensor


class _Block(keras.layers.Layer):
    """The base of layers and stacks; `Encoder` tells what the arguments mean and what is raised."""

    layers: list["_Block"]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        check_call(cls, args, kwargs, _ARGUMENTS)
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        *,
        head_dim: int | None = None,
        activation: str | Callable[[Tensor], Tensor] | None = "relu",
        gated: bool = False,
        use_bias: bool = True,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        intermediate_dropout: float = 0.0,
        norm_first: bool = False,
        normalization: str = "layer",
        layer_norm_epsilon: float = 1e-6,
        num_key_value_heads: int | None = None,
        positions: str | None = None,
        kernel_initializer: object = None,
        bias_initializer: object = None,
        **kwargs: object,
    ) -> None:
        check_names(type(self), kwargs, _ARGUMENTS)
        super().__init__(**kwargs)
        check_positive(num_heads=num_heads, intermediate_dim=intermediate_dim)
        _check_optional_sizes(head_dim=head_dim)
        check_rates(
            dropout=dropout,
            attention_dropout=attention_dropout,
            intermediate_dropout=intermediate_dropout,
        )
        check_divides(num_key_value_heads=num_key_value_heads, num_heads=num_heads)
        check_choice(NORMALIZATIONS, normalization=normalization)
        check_choice(POSITIONS, positions=positions)
        check_choice((True, False), gated=gated, use_bias=use_bias, norm_first=norm_first)
        check_number(above=0, below=1, layer_norm_epsilon=layer_norm_epsilon)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.intermediate_dim = intermediate_dim
        self.activation = get_activation(activation)
        self.gated = gated
        self.use_bias = use_bias
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.intermediate_dropout = intermediate_dropout
        self.norm_first = norm_first
        self.normalization = normalization
        self.layer_norm_epsilon = layer_norm_epsilon
        self.num_key_value_heads = num_key_value_heads
        self.positions = positions
        # None until it is used: a Keras initializer takes its seed from Python's generator when it is made.
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def compute_output_shape(self, inputs_shape: Shape, encoder_output_shape: Shape | None = None) -> Shape:
        return tuple(inputs_shape)

    def compute_output_spec(self, inputs: Tensor, *args: Any, **kwargs: Any) -> keras.KerasTensor:
        """Return the symbolic output, where an eager call would not raise; Keras calls this."""
        self._check(inputs, *args, **kwargs)
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def _check(self, *args: Any, **kwargs: Any) -> None:
        # A stack takes what its first layer takes.
        self.layers[0]._check(*args, **kwargs)

    def attention_scores(self, inputs: Tensor, *args: Any, **masks: Any) -> dict[str, Tensor]:
        """Return the scores that the call of a built stack computes.

        The arguments are those of the call.

        Returns:
            A dict of `layer_{i}/self_attention` `(b, h, t, t)` and, in a decoder, `layer_{i}/cross_attention`
            `(b, h, t, s)`, from 1.
        """
        x, scores = inputs, {}
        for layer in self.layers:
            of_layer = layer.attention_scores(x, *args, **masks)
            scores.update({f"{layer.name}/{name}": score for name, score in of_layer.items()})
            # The layer runs a second time: so its call has one return type, and no scores to carry.
            x = layer(x, *args, **masks)
        return scores

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), **self._options()}

    def _options(self) -> Config:
        """Return the arguments of the constructor, those of Keras left out."""
        options: Config = {name: getattr(self, name) for name in _OPTIONS}
        # By its name, where Keras knows one: a function itself cannot be written as JSON.
        for name in ("kernel_initializer", "bias_initializer"):
            options[name] = keras.initializers.serialize(getattr(self, name))
        return {**options, "activation": serialize_activation(self.activation)}

    def _as_vectors(self, inputs: Tensor, attention: MultiHeadAttention) -> Tensor:
        """Return inputs `(b, t, d)`, integers as floats; raise ValueError for another shape."""
        check_vectors(inputs.shape)
        check_width(attention.query_dense.kernel.shape[0], inputs=inputs.shape)
        is_float = keras.backend.is_float_dtype(inputs.dtype)
        return inputs if is_float else ops.cast(inputs, self.compute_dtype)

    def _attention(
        self, name: str, query_shape: Shape, value_shape: Shape, positions: str | None = None
    ) -> MultiHeadAttention:
        check_vectors(query_shape)
        hidden_dim = known_width(inputs=query_shape)
        if self.head_dim is None:
            check_divides(num_heads=self.num_heads, hidden_dim=hidden_dim)
        attention = MultiHeadAttention(
            self.num_heads,
            # k = d / h, section 3.2.2: all heads together are as wide as the input.
            self.head_dim or hidden_dim // self.num_heads,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            num_key_value_heads=self.num_key_value_heads,
            positions=positions,
            kernel_initializer=self.kernel_initializer or "glorot_uniform",
            bias_initializer=self.bias_initializer or "zeros",
            dtype=self.dtype_policy,
            name=name,
        )
        attention._differs_unseen = False
        # Built at once, in the order in which weights are saved; Keras would build each part when it is
        # called.
        attention.build(query_shape, value_shape)
        return attention

    def _feed_forward(self, name: str, shape: Shape) -> FeedForward:
        feed_forward = FeedForward(
            self.intermediate_dim,
            activation=self.activation,
            gated=self.gated,
            use_bias=self.use_bias,
            dropout=self.intermediate_dropout,
            kernel_initializer=self.kernel_initializer,
            bias_initializer=self.bias_initializer,
            dtype=self.dtype_policy,
            name=name,
        )
        feed_forward.build(shape)
        return feed_forward

    def _residual(self, name: str, shape: Shape) -> "_Residual":
        residual = _Residual(self, dtype=self.dtype_policy, name=name)
        residual.build(shape)
        return residual

    def make_normalization(self, name: str) -> keras.layers.Layer:
        """Return another normalization of the kind that these layers have."""
        epsilon = self.layer_norm_epsilon
        return _make_normalization(self.normalization, epsilon=epsilon, dtype=self.dtype_policy, name=name)

    def _final_normalization(self, shape: Shape, is_wanted: bool | None) -> keras.layers.Layer:
        # Pre-norm layers leave their output unnormalized, so the stack normalizes it at its end.
        if self.norm_first if is_wanted is None else is_wanted:
            layer = self.make_normalization("final_normalization")
        else:
            # Of no weights, so that both kinds of stack have the same parts.
            layer = keras.layers.Identity(dtype=self.dtype_policy, name="final_normalization")
        layer.build(shape)
        return layer


_OPTIONS = [name for name in inspect.signature(_Block.__init__).parameters if name not in ("self", "kwargs")]
_ARGUMENTS = (*_OPTIONS, "name", "dtype", "trainable", "autocast", "activity_regularizer", "input_shape")


class _Residual(keras.layers.Layer):
    """The residual connection around a sub-layer `f`: the one place that knows pre- and post-norm.

    Post-norm, as in the paper (section 3.1): `norm(x + dropout(f(x)))`. Pre-norm, which trains deep stacks
    more easily (Xiong et al. 2020): `x + dropout(f(norm(x)))`.
    """

    def __init__(self, block: _Block, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.norm_first = block.norm_first
        self.norm = block.make_normalization("norm")
        self.output_dropout = Dropout(block.dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self.norm.build(inputs_shape)

    def around(
        self, sublayer: Callable[[Tensor], Tensor], inputs: Tensor, training: bool | None = None
    ) -> Tensor:
        """Apply a sub-layer to `(b, t, d)`."""
        return self(inputs, sublayer(self.before(inputs)), training=training)

    def before(self, inputs: Tensor) -> Tensor:
        """Return the sub-layer's input."""
        return self.norm(inputs) if self.norm_first else inputs

    def call(self, inputs: Tensor, outputs: Tensor, training: bool | None = None) -> Tensor:
        # Dropout comes before the sum, section 5.4.
        total = inputs + self.output_dropout(outputs, training=training)
        return total if self.norm_first else self.norm(total)
