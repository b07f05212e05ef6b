"""Pretrained Hugging Face models: import and export."""

from keras_transformer.pretrained.hugging_face import (
    from_hugging_face,
    read_encoder,
    read_tokenizers,
    save_hugging_face,
)

__all__ = ["from_hugging_face", "read_encoder", "read_tokenizers", "save_hugging_face"]
__dir__ = __all__.copy  # `dir()` shows what is public
