"""From a trained model to answers: searches, the loop that drives them, the translator."""

from keras_transformer.decoding.alignment import align_targets
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.beam_state import BeamState
from keras_transformer.decoding.completion import CompletingModel, complete
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.contract import Cache, Request, Search, SearchResult, SpecialIds, Step
from keras_transformer.decoding.coverage import coverage_penalty
from keras_transformer.decoding.forced_prefix import force_prefix
from keras_transformer.decoding.generation import StepwiseModel, generate
from keras_transformer.decoding.greedy import GreedySearch
from keras_transformer.decoding.limits import Limits
from keras_transformer.decoding.row_search import RowSearch, RowState
from keras_transformer.decoding.sample_search import SampleSearch
from keras_transformer.decoding.sampling import Sampler
from keras_transformer.decoding.scores import length_penalty
from keras_transformer.decoding.scoring import TargetScores, score_targets
from keras_transformer.decoding.search_options import change_search, make_search
from keras_transformer.decoding.streaming import TokenStreamer, stream
from keras_transformer.decoding.text_streaming import TextStreamer, stream_text
from keras_transformer.decoding.text_translator import TextTranslator
from keras_transformer.decoding.translation import Alignment, PairScore, Translation, TruncationWarning
from keras_transformer.decoding.translator import Translator

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
