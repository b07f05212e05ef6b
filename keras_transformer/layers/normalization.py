"""The two normalisations that a Transformer may use."""

from typing import Any

import keras

from keras_transformer.layers.validation import check_choice

NORMALIZATIONS = ("layer", "rms")


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
    makers = {"layer": keras.layers.LayerNormalization, "rms": keras.layers.RMSNormalization}
    layer = makers[kind](epsilon=epsilon, dtype=dtype, name=name)
    layer.supports_masking = True  # Keras's RMS normalisation would drop the mask
    return layer
