"""Exports for TensorFlow Serving, LiteRT, ONNX and CTranslate2, and tasks that run an exported SavedModel."""

from keras_transformer.export.ctranslate2 import export_ctranslate2
from keras_transformer.export.fixed_size import export_litert, export_onnx
from keras_transformer.export.saved_model import export_saved_model
from keras_transformer.export.served_model import ServedClassifier, ServedModel, ServedTagger, served_kind
from keras_transformer.export.verification import verify_saved_model

__all__ = [
    "ServedClassifier",
    "ServedModel",
    "ServedTagger",
    "export_ctranslate2",
    "export_litert",
    "export_onnx",
    "export_saved_model",
    "served_kind",
    "verify_saved_model",
]
__dir__ = __all__.copy  # `dir()` shows what is public
