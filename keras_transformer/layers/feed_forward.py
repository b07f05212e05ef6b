"""The position-wise feed-forward network, "Attention Is All You Need", section 3.3."""

from typing import Any

import keras

from keras_transformer.layers.validation import check_positive, check_rates
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """Two linear maps with an activation between them, at every position alike.

    `FFN(x) = activation(x W1 + b1) W2 + b2`; the output has the width of the
    input.

    Args:
        intermediate_dim: the inner width, `f`.
        activation: what `keras.activations.get` takes.
        dropout: the rate of the dropout after the activation.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`.
        training: whether dropout is on.

    Returns:
        `(b, t, d)`.

    Raises:
        ValueError: a width not above zero, a rate outside [0, 1), or an
            unknown activation.

    Example:
        >>> tuple(FeedForward(32)(keras.ops.zeros((2, 5, 8))).shape)
        (2, 5, 8)
    """

    def __init__(
        self,
        intermediate_dim: int,
        *,
        activation: Any = "relu",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(intermediate_dim=intermediate_dim)
        check_rates(dropout=dropout)
        self.intermediate_dim = intermediate_dim
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        hidden_dim = input_shape[-1]
        self.inner = keras.layers.Dense(
            self.intermediate_dim, activation=self.activation, dtype=self.dtype_policy, name="inner"
        )
        self.inner_dropout = keras.layers.Dropout(self.dropout, dtype=self.dtype_policy)
        self.outer = keras.layers.Dense(hidden_dim, dtype=self.dtype_policy, name="outer")
        self.inner.build(input_shape)
        self.outer.build((*input_shape[:-1], self.intermediate_dim))

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        x = self.inner(inputs)  # (b, t, f)
        x = self.inner_dropout(x, training=training)
        return self.outer(x)  # (b, t, d)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
        }
