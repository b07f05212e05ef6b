"""The two normalisations that a Transformer may use."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.validation import check_choice
from keras_transformer.types import Tensor

NORMALIZATIONS = ("layer", "rms")


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer normalisation of the last axis, trained on TensorFlow in fewer operations.

    TensorFlow runs each operation by itself and derives twice as many for the gradient as one needs
    that is written out. The numbers are the same to rounding.
    """

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Normalise `(..., d)`; Keras calls this."""
        if not training or keras.backend.backend() != "tensorflow":
            return super().call(inputs)
        rows = ops.reshape(ops.cast(inputs, "float32"), (-1, inputs.shape[-1]))
        outputs = _normalize_rows(
            rows, ops.cast(self.gamma, "float32"), ops.cast(self.beta, "float32"), self.epsilon
        )
        return ops.cast(ops.reshape(outputs, ops.shape(inputs)), self.compute_dtype)


def _normalize_rows(rows: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensor:
    """Normalise rows `(r, d)`, with `gamma` and `beta` `(d,)`: Ba et al. 2016, equation 4."""

    @ops.custom_gradient
    def normalized(rows: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        """Give the normalised rows, and how their gradient is computed."""
        centered = rows - ops.mean(rows, axis=-1, keepdims=True)
        inverse = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)  # (r, 1)
        standard = centered * inverse

        def gradient(upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """Give the gradients of the rows, of `gamma` and of `beta`."""
            product = upstream * standard
            # The means over a row of what reaches it through `gamma`.
            weights = gamma[:, None] / gamma.shape[0]
            mean, mean_product = ops.matmul(upstream, weights), ops.matmul(product, weights)  # (r, 1)
            of_rows = (upstream * gamma - mean - standard * mean_product) * inverse
            return of_rows, ops.sum(product, axis=0), ops.sum(upstream, axis=0)

        return standard * gamma + beta, gradient

    return normalized(rows, gamma, beta)


def make_normalization(kind: str, *, epsilon: float, dtype: Any, name: str) -> keras.layers.Layer:
    """Make the layer that a name stands for.

    Args:
        kind: `layer` (Ba et al. 2016), as in the paper, or `rms` (Zhang and
            Sennrich 2019), which leaves out the mean and the bias.
        epsilon: what is added to the variance.
        dtype: of the layer.
        name: of the layer.

    Returns:
        A Keras layer.

    Raises:
        ValueError: an unknown kind.
    """
    check_choice(NORMALIZATIONS, normalization=kind)
    makers = {"layer": LayerNormalization, "rms": keras.layers.RMSNormalization}
    layer = makers[kind](epsilon=epsilon, dtype=dtype, name=name)
    layer.supports_masking = True  # Keras's RMS normalisation would drop the mask
    return layer
