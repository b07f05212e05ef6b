"""Models that others have trained: their configuration and weights as a model of ours."""

from keras_transformer.pretrained.hugging_face import HuggingFaceCheckpoint

__all__ = ["HuggingFaceCheckpoint"]
__dir__ = __all__.copy  # `dir()` shows what is public
