"""Dropout and the two normalizations of a Transformer, in fewer operations where a gradient follows."""

import keras
from keras import ops

from keras_transformer.arguments import check_choice
from keras_transformer.backend.formulas import drop, layer_normalization, trains_by_hand
from keras_transformer.types import Tensor

NORMALIZATIONS = ("layer", "rms")


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Dropout):
    """Keras's dropout (Srivastava et al. 2014), with 8 random bits for each number on TensorFlow."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        is_by_hand = training and trains_by_hand() and self.noise_shape is None
        # 8 bits tell 256 rates apart; `drop` chooses between two neighbors, so that the rate is exact over
        # many calls. The last rates have no neighbor above.
        if not (is_by_hand and 0 < self.rate < 1 - 2**-8):
            return super().call(inputs, training=training)
        return drop(inputs, self.rate, self.seed_generator.next())


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer normalization of the last axis; its gradient is written out on TensorFlow."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if not (training and trains_by_hand()):
            return super().call(inputs)
        # (b, t, d) -> (b * t, d), in float32: sums over d lose digits in half precision
        rows = ops.reshape(ops.cast(inputs, "float32"), (-1, inputs.shape[-1]))
        gamma, beta = ops.cast(self.gamma, "float32"), ops.cast(self.beta, "float32")
        outputs = layer_normalization(rows, gamma, beta, self.epsilon)
        return ops.cast(ops.reshape(outputs, ops.shape(inputs)), self.compute_dtype)


def _make_normalization(
    kind: str, *, epsilon: float, dtype: keras.DTypePolicy | str | None, name: str
) -> keras.layers.Layer:
    """Return the layer of a kind: `layer` (Ba et al. 2016), or `rms` (Zhang and Sennrich 2019)."""
    check_choice(NORMALIZATIONS, normalization=kind)
    makers = {"layer": LayerNormalization, "rms": keras.layers.RMSNormalization}
    layer = makers[kind](epsilon=epsilon, dtype=dtype, name=name)
    # Keras's RMS normalization would drop the mask.
    layer.supports_masking = True
    return layer
