"""Strings to token ids and back: special tokens, tokenizers, vocabulary training."""

from keras_transformer.text.bridge import as_tokenizer
from keras_transformer.text.hugging_face import read_hugging_face_tokenizers
from keras_transformer.text.lookup import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.text.subword import SubwordTokenizer, VocabularyWarning
from keras_transformer.text.tokenizer import Tokenizer, load_tokenizer
from keras_transformer.types import SPECIAL_IDS

__all__ = [
    "SPECIAL_IDS",
    "CharacterTokenizer",
    "SubwordTokenizer",
    "Tokenizer",
    "VocabularyWarning",
    "WhitespaceTokenizer",
    "as_tokenizer",
    "load_tokenizer",
    "read_hugging_face_tokenizers",
]
__dir__ = __all__.copy  # `dir()` shows what is public
