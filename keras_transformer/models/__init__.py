"""Whole models, each a Functional `keras.Model` built from `layers`."""

from keras_transformer.models.presets import preset
from keras_transformer.models.transformer import Transformer

__all__ = ["Transformer", "preset"]
