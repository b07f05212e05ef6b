"""Decoding: searches, the loop that drives them, and translators from strings to strings."""

from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.generation import generate
from keras_transformer.decoding.sampling import GreedySearch, SampleSearch
from keras_transformer.decoding.scoring import align_targets, score_targets
from keras_transformer.decoding.search import SearchResult
from keras_transformer.decoding.text_generator import TextGenerator
from keras_transformer.decoding.text_translator import (
    Alignment,
    PairScore,
    TextTranslator,
    Translation,
    TruncationWarning,
)
from keras_transformer.decoding.translator import Translator

__all__ = [
    "Alignment",
    "BeamSearch",
    "Constraints",
    "GreedySearch",
    "PairScore",
    "SampleSearch",
    "SearchResult",
    "TextGenerator",
    "TextTranslator",
    "Translation",
    "Translator",
    "TruncationWarning",
    "align_targets",
    "generate",
    "score_targets",
]
__dir__ = __all__.copy  # `dir()` shows what is public
