"""Strings to token ids and back: special tokens, tokenizers, vocabulary training."""

from keras_transformer.text.adapted_tokenizer import AdaptedTokenizer
from keras_transformer.text.adapters import as_tokenizer
from keras_transformer.text.byte_pair import BytePairTokenizer
from keras_transformer.text.long_texts import TextPieces, split_texts
from keras_transformer.text.lookup import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.text.subword import SubwordTokenizer, VocabularyWarning
from keras_transformer.text.tokenizer import Tokenizer, load_tokenizer
from keras_transformer.types import SPECIAL_IDS

__all__ = [
    "SPECIAL_IDS",
    "AdaptedTokenizer",
    "BytePairTokenizer",
    "CharacterTokenizer",
    "SubwordTokenizer",
    "TextPieces",
    "Tokenizer",
    "VocabularyWarning",
    "WhitespaceTokenizer",
    "as_tokenizer",
    "load_tokenizer",
    "split_texts",
]
__dir__ = __all__.copy  # `dir()` shows what is public
