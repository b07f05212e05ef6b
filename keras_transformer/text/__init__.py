"""Strings to token ids and back: special tokens, tokenizers, vocabulary training."""

from keras_transformer.text.character import CharacterTokenizer
from keras_transformer.text.loading import load_tokenizer
from keras_transformer.text.special_tokens import (
    END_ID,
    NUM_SPECIAL_TOKENS,
    PAD_ID,
    SPECIAL_TOKENS,
    START_ID,
    UNKNOWN_ID,
)
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.text.subword_training import VocabularyWarning
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.whitespace import WhitespaceTokenizer

__all__ = [
    "END_ID",
    "NUM_SPECIAL_TOKENS",
    "PAD_ID",
    "SPECIAL_TOKENS",
    "START_ID",
    "UNKNOWN_ID",
    "CharacterTokenizer",
    "SubwordTokenizer",
    "Tokenizer",
    "VocabularyWarning",
    "WhitespaceTokenizer",
    "load_tokenizer",
]
