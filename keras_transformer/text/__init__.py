"""Tokenizers: convert strings to token ids and back, and train vocabularies."""

from keras_transformer.text.adapted_tokenizer import AdaptedTokenizer
from keras_transformer.text.adapters import as_tokenizer
from keras_transformer.text.byte_pair import BytePairTokenizer
from keras_transformer.text.long_texts import TextPieces, split_texts
from keras_transformer.text.lookup import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.text.reader import Reader
from keras_transformer.text.subword import SubwordTokenizer, VocabularyWarning
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.word_piece import BertTokenizer
from keras_transformer.text.words import WordIds, Words, encode_words, split_words
from keras_transformer.types import SPECIAL_IDS

__all__ = [
    "SPECIAL_IDS",
    "AdaptedTokenizer",
    "BertTokenizer",
    "BytePairTokenizer",
    "CharacterTokenizer",
    "Reader",
    "SubwordTokenizer",
    "TextPieces",
    "Tokenizer",
    "VocabularyWarning",
    "WhitespaceTokenizer",
    "WordIds",
    "Words",
    "as_tokenizer",
    "encode_words",
    "split_texts",
    "split_words",
]
__dir__ = __all__.copy  # `dir()` shows what is public
