"""From a translator to a directory that TensorFlow Serving answers from."""

from keras_transformer.export.saved_model import export_saved_model, next_version, versions
from keras_transformer.export.served_model import ServedModel
from keras_transformer.export.serving_module import ServingModule
from keras_transformer.export.verification import ExportError, verify_saved_model

__all__ = [
    "ExportError",
    "ServedModel",
    "ServingModule",
    "export_saved_model",
    "next_version",
    "verify_saved_model",
    "versions",
]
