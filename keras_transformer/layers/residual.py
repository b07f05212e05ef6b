"""The residual connection around every sub-layer: the one place that knows pre- and post-norm."""

from typing import Any

import keras

from keras_transformer.arguments import as_floats, check_alike, check_rates, check_width, freeze_parts
from keras_transformer.layers.normalization import Dropout, make_normalization
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(keras.layers.Layer):
    """Adds a sub-layer's output to its input, with dropout and normalisation.

    Post-norm, as in the paper (section 3.1): `norm(x + dropout(f(x)))`.
    Pre-norm, which trains deep stacks more easily (Xiong et al. 2020):
    `x + dropout(f(norm(x)))`. Either way a sub-layer `f` is used as

        x = residual(x, f(residual.before(x)))

    Args:
        norm_first: True for pre-norm.
        dropout: the rate of the dropout on the sub-layer's output.
        normalization: `layer` or `rms`; see `make_normalization`.
        layer_norm_epsilon: what is added to the variance.
        **kwargs: `name` and `dtype` of a Keras layer.

    Call arguments:
        inputs: `(b, t, d)`, what entered `before`.
        sublayer_output: `(b, t, d)`; None for what `before` gives.
        training: whether dropout is on.

    Returns:
        `(b, t, d)`.

    Raises:
        ValueError: a rate outside [0, 1), an unknown normalisation, a sub-layer's output of another shape
            than its input, inputs of another width than the weights.
    """

    def __init__(
        self,
        *,
        norm_first: bool = False,
        dropout: float = 0.0,
        normalization: str = "layer",
        layer_norm_epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_rates(dropout=dropout)
        self.norm_first = norm_first
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.normalization = normalization
        self.norm = make_normalization(
            normalization, epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="norm"
        )
        self.output_dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        if not self.norm.built:  # `before` may have been called first
            self.norm.build(inputs_shape)
        freeze_parts(self)

    def before(self, inputs: Tensor) -> Tensor:
        """Give the sub-layer's input.

        Args:
            inputs: `(b, t, d)`.

        Returns:
            `(b, t, d)`: normalised for pre-norm, as it is for post-norm.
        """
        # In a functional model it is a call of this layer: `norm` would be a layer of the model's own.
        return self(inputs) if isinstance(inputs, keras.KerasTensor) else self._before(inputs)

    def call(
        self, inputs: Tensor, sublayer_output: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        if sublayer_output is None:
            return self._before(inputs)
        inputs, sublayer_output = _floats(inputs), _floats(sublayer_output)
        check_alike(inputs=inputs, sublayer_output=sublayer_output)
        self._check_width(inputs)
        outputs = inputs + self.output_dropout(sublayer_output, training=training)
        return outputs if self.norm_first else self.norm(outputs)

    def _before(self, inputs: Tensor) -> Tensor:
        inputs = _floats(inputs)
        self._check_width(inputs)
        return self.norm(inputs) if self.norm_first else inputs

    def _check_width(self, inputs: Tensor) -> None:
        if self.norm.built:
            check_width(self.norm.weights[0].shape[-1], inputs=inputs)

    def compute_output_shape(self, inputs_shape: Shape, sublayer_output_shape: Shape | None = None) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "norm_first": self.norm_first,
            "dropout": self.dropout,
            "normalization": self.normalization,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }


def _floats(inputs: Tensor) -> Tensor:
    """Make floating-point numbers of integers, which Keras's normalisations would cut off."""
    is_int = keras.backend.is_int_dtype(getattr(inputs, "dtype", "float32"))
    return as_floats(inputs) if is_int else inputs
