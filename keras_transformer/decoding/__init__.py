"""Decoding of token ids: search strategies, the decoding loop, and scores and alignments of given targets."""

from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.generation import generate, stream_tokens
from keras_transformer.decoding.sampling import GreedySearch, SampleSearch
from keras_transformer.decoding.scoring import (
    score_tokens,
    target_attention,
)
from keras_transformer.decoding.search import Search, SearchResult

__all__ = [
    "BeamSearch",
    "Constraints",
    "GreedySearch",
    "SampleSearch",
    "Search",
    "SearchResult",
    "generate",
    "score_tokens",
    "stream_tokens",
    "target_attention",
]
__dir__ = __all__.copy  # `dir()` shows what is public
