"""From a trained model to answers: searches, the loop that drives them, the translator."""

from keras_transformer.decoding.alignment import align_targets
from keras_transformer.decoding.beam import BeamSearch, BeamState
from keras_transformer.decoding.completion import CompletingModel, complete
from keras_transformer.decoding.contract import Cache, Search, SearchResult, SpecialIds, Step
from keras_transformer.decoding.generation import StepwiseModel, generate
from keras_transformer.decoding.greedy import GreedySearch, GreedyState
from keras_transformer.decoding.scores import length_penalty
from keras_transformer.decoding.scoring import TargetScores, score_targets
from keras_transformer.decoding.search_options import make_search
from keras_transformer.decoding.text_translator import TextTranslator
from keras_transformer.decoding.translation import Alignment, PairScore, Translation, TruncationWarning
from keras_transformer.decoding.translator import Translator

__all__ = [
    "Alignment",
    "BeamSearch",
    "BeamState",
    "Cache",
    "CompletingModel",
    "GreedySearch",
    "GreedyState",
    "PairScore",
    "Search",
    "SearchResult",
    "SpecialIds",
    "Step",
    "StepwiseModel",
    "TargetScores",
    "TextTranslator",
    "Translation",
    "Translator",
    "TruncationWarning",
    "align_targets",
    "complete",
    "generate",
    "length_penalty",
    "make_search",
    "score_targets",
]
