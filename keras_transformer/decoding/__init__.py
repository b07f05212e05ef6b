"""From a trained model to answers: searches, the loop that drives them, the translator."""

from keras_transformer.decoding.beam import BeamSearch, BeamState, coverage_penalty
from keras_transformer.decoding.constraints import Constraints, force_prefix
from keras_transformer.decoding.generation import (
    CompletingModel,
    StepwiseModel,
    TokenStreamer,
    complete,
    generate,
    stream,
)
from keras_transformer.decoding.log_probabilities import length_penalty
from keras_transformer.decoding.sampling import GreedySearch, RowSearch, RowState, Sampler, SampleSearch
from keras_transformer.decoding.scoring import TargetScores, align_targets, score_targets
from keras_transformer.decoding.search import Cache, Limits, Request, Search, SearchResult, Step
from keras_transformer.decoding.text_translator import (
    Alignment,
    PairScore,
    TextTranslator,
    Translation,
    TruncationWarning,
)
from keras_transformer.decoding.translator import TextStreamer, Translator, stream_text
from keras_transformer.decoding.translator_files import change_search, make_search
from keras_transformer.types import SpecialIds

__all__ = [
    "Alignment",
    "BeamSearch",
    "BeamState",
    "Cache",
    "CompletingModel",
    "Constraints",
    "GreedySearch",
    "Limits",
    "PairScore",
    "Request",
    "RowSearch",
    "RowState",
    "SampleSearch",
    "Sampler",
    "Search",
    "SearchResult",
    "SpecialIds",
    "Step",
    "StepwiseModel",
    "TargetScores",
    "TextStreamer",
    "TextTranslator",
    "TokenStreamer",
    "Translation",
    "Translator",
    "TruncationWarning",
    "align_targets",
    "change_search",
    "complete",
    "coverage_penalty",
    "force_prefix",
    "generate",
    "length_penalty",
    "make_search",
    "score_targets",
    "stream",
    "stream_text",
]
