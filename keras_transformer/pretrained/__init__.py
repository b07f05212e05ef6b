"""Models that others have trained: their configuration and weights as a model of ours."""

from keras_transformer.pretrained.hugging_face import HuggingFaceCheckpoint
from keras_transformer.pretrained.torch_transformer import TorchTransformer

__all__ = ["HuggingFaceCheckpoint", "TorchTransformer"]
__dir__ = __all__.copy  # `dir()` shows what is public
