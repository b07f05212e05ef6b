"""Dropout and normalization layers, with fewer operations than Keras's on TensorFlow."""

import keras

from keras_transformer._backend.formulas import fast_dropout, layer_normalization
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Dropout):
    """Dropout (Srivastava et al. 2014) as in Keras; faster on TensorFlow, with 8 random bits per element."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        outputs = None
        # Keras creates no seed generator for a rate of 0.
        if training and self.rate > 0 and self.noise_shape is None:
            outputs = fast_dropout(inputs, self.rate, self.seed_generator)
        return super().call(inputs, training=training) if outputs is None else outputs


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Layer normalization of the last axis as in Keras, with fewer operations on TensorFlow."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        weights = self.gamma, self.beta
        outputs = layer_normalization(
            inputs, *weights, self.epsilon, self.compute_dtype, training=bool(training)
        )
        return super().call(inputs) if outputs is None else outputs


def _make_normalization(
    kind: str, *, epsilon: float, dtype: keras.DTypePolicy | str | None, name: str
) -> keras.layers.Layer:
    """Build a normalization layer: `layer` (Ba et al. 2016) or `rms` (Zhang and Sennrich 2019)."""
    makers = {"layer": LayerNormalization, "rms": keras.layers.RMSNormalization}
    layer = makers[kind](epsilon=epsilon, dtype=dtype, name=name)
    # By default Keras's RMS normalization drops the mask.
    layer.supports_masking = True
    return layer
