"""Position-wise feed-forward network, "Attention Is All You Need", section 3.3."""

from collections.abc import Callable

import keras
from keras import ops

from keras_transformer._arguments import (
    check_flags,
    check_kind,
    check_positive,
    check_rates,
    check_width,
    known_width,
)
from keras_transformer._backend.indexing import dynamic_shape
from keras_transformer.layers.built_parts import _clone, _freeze_parts
from keras_transformer.layers.normalization import Dropout
from keras_transformer.layers.projection import Dense
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer", name="gelu_tanh")
def _gelu_tanh(inputs: Tensor) -> Tensor:
    return keras.activations.gelu(inputs, approximate=True)


def get_activation(activation: object, option: str = "activation") -> Callable[[Tensor], Tensor]:
    """Return the activation function of a name; raise ValueError for an unknown name."""
    check_kind(str, Callable, dict, None, **{option: activation})
    # Keras has a name only for the exact GELU.
    if activation == "gelu_tanh":
        return _gelu_tanh
    try:
        return keras.activations.get(activation)
    except ValueError as error:
        raise ValueError(
            f"`{option}` must be a name that Keras knows, `gelu_tanh`, or a function. "
            f"Received: {option}={activation!r}."
        ) from error


def serialize_activation(activation: object) -> object:
    """Return an activation as a configuration stores it: its name, if it has one."""
    function = get_activation(activation)
    return "gelu_tanh" if function is _gelu_tanh else keras.activations.serialize(function)


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """Position-wise feed-forward network, optionally gated (GLU).

    `FFN(x) = activation(x W1 + b1) W2 + b2`, with the output as wide as the input. With `gated`,
    `FFN(x) = (activation(x W1 + b1) * (x V + c)) W2 + b2` (Shazeer 2020, "GLU Variants Improve Transformer"):
    SwiGLU with the activation `silu`, GEGLU with `gelu`.

    Args:
        intermediate_dim: Inner width, `f`.
        activation: Argument of `keras.activations.get`, or `gelu_tanh`. Defaults to `relu`.
        gated: Whether to use a gated feed-forward network (GLU).
        use_bias: Whether the linear maps have biases.
        dropout: Dropout rate after the activation.
        kernel_initializer: Initializer of the kernels. Defaults to `glorot_uniform`.
        bias_initializer: Initializer of the biases. Defaults to `zeros`.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        training: Whether to apply dropout.

    Returns:
        `(b, t, d)`.

    Raises:
        ValueError: If `intermediate_dim` is not above zero, the rate is outside [0, 1), or the activation is
            unknown.

    Example:
        >>> tuple(FeedForward(32)(keras.ops.zeros((2, 5, 8))).shape)
        (2, 5, 8)
    """

    def __init__(
        self,
        intermediate_dim: int,
        *,
        activation: str | Callable[[Tensor], Tensor] | None = "relu",
        gated: bool = False,
        use_bias: bool = True,
        dropout: float = 0.0,
        kernel_initializer: object = None,
        bias_initializer: object = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(intermediate_dim=intermediate_dim)
        check_rates(dropout=dropout)
        check_flags(gated=gated, use_bias=use_bias)
        self.intermediate_dim = int(intermediate_dim)  # Keras refuses NumPy's integers
        self.activation = get_activation(activation)
        self.gated = gated
        self.use_bias = use_bias
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        inner_shape = (*input_shape[:-1], self.intermediate_dim)
        self.inner = self._dense("inner", self.intermediate_dim, input_shape, self.activation)
        self.gate = self._dense("gate", self.intermediate_dim, input_shape) if self.gated else None
        self.inner_dropout = Dropout(self.dropout, dtype=self.dtype_policy)
        self.outer = self._dense("outer", known_width(inputs=input_shape), inner_shape)
        _freeze_parts(self)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        self.compute_output_shape(inputs.shape)
        # (b, t, d) -> (b * t, d): matrix products of rank 3 need several more operations.
        rows = inputs if len(inputs.shape) == 2 else ops.reshape(inputs, (-1, inputs.shape[-1]))
        # (b * t, d) -> (b * t, f)
        x = self.inner(rows)
        if self.gate is not None:
            # The gate itself has no activation.
            x = x * self.gate(rows)
        x = self.outer(self.inner_dropout(x, training=training))
        return x if rows is inputs else ops.reshape(x, dynamic_shape(inputs))

    def _dense(
        self, name: str, width: int, shape: Shape, activation: Callable[[Tensor], Tensor] | None = None
    ) -> keras.layers.Dense:
        layer = Dense(
            width,
            activation=activation,
            use_bias=self.use_bias,
            kernel_initializer=_clone(self.kernel_initializer) or "glorot_uniform",
            bias_initializer=_clone(self.bias_initializer) or "zeros",
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build(shape)
        return layer

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if self.built:
            check_width(self.outer.units, inputs=input_shape)
        return tuple(input_shape)

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": serialize_activation(self.activation),
            "gated": self.gated,
            "use_bias": self.use_bias,
            "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
