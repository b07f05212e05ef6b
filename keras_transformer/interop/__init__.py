"""Weights for other engines."""

from keras_transformer.interop.ctranslate2 import export_ctranslate2

__all__ = ["export_ctranslate2"]
