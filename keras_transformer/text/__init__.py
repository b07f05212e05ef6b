"""Strings to token ids and back: special tokens, tokenizers, vocabulary training."""

from keras_transformer.text.loading import load_tokenizer
from keras_transformer.text.lookup_tokenizer import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.text.subword import SubwordTokenizer, VocabularyWarning
from keras_transformer.text.tokenizer import (
    END_ID,
    NUM_SPECIAL_TOKENS,
    PAD_ID,
    SPECIAL_TOKENS,
    START_ID,
    UNKNOWN_ID,
    Tokenizer,
)

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
