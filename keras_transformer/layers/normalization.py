"""Dropout and the two normalizations of a Transformer, in fewer operations where a gradient follows."""

import keras

from keras_transformer._backend.formulas import drop, layer_normalization
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Dropout):
    """Keras's dropout (Srivastava et al. 2014), with 8 random bits for each number on TensorFlow."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        outputs = None
        # Keras makes no generator for a rate of 0.
        if training and self.rate > 0 and self.noise_shape is None:
            outputs = drop(inputs, self.rate, self.seed_generator)
        return super().call(inputs, training=training) if outputs is None else outputs


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer normalization of the last axis, in fewer operations on TensorFlow."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        weights = self.gamma, self.beta
        outputs = layer_normalization(
            inputs, *weights, self.epsilon, self.compute_dtype, training=bool(training)
        )
        return super().call(inputs) if outputs is None else outputs


def _make_normalization(
    kind: str, *, epsilon: float, dtype: keras.DTypePolicy | str | None, name: str
) -> keras.layers.Layer:
    """Return the layer of a kind: `layer` (Ba et al. 2016), or `rms` (Zhang and Sennrich 2019)."""
    makers = {"layer": LayerNormalization, "rms": keras.layers.RMSNormalization}
    layer = makers[kind](epsilon=epsilon, dtype=dtype, name=name)
    # Keras's RMS normalization would drop the mask.
    layer.supports_masking = True
    return layer
