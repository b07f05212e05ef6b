"""From a trained model to answers: searches, the loop that drives them, the translator."""

from keras_transformer.decoding.beam import BeamSearch, BeamState
from keras_transformer.decoding.completion import CompletingModel, complete
from keras_transformer.decoding.contract import Cache, Search, SearchResult, SpecialIds, Step
from keras_transformer.decoding.generation import StepwiseModel, generate
from keras_transformer.decoding.greedy import GreedySearch, GreedyState
from keras_transformer.decoding.scores import length_penalty
from keras_transformer.decoding.translator import Translation, Translator
from keras_transformer.decoding.translator_files import make_search

__all__ = [
    "BeamSearch",
    "BeamState",
    "Cache",
    "CompletingModel",
    "GreedySearch",
    "GreedyState",
    "Search",
    "SearchResult",
    "SpecialIds",
    "Step",
    "StepwiseModel",
    "Translation",
    "Translator",
    "complete",
    "generate",
    "length_penalty",
    "make_search",
]
