"""How good answers are: exact match, error rates, BLEU and chrF.

Every measure takes the answers and, for each of them, one reference string or several. `evaluate`
computes many of them at once and prints as a table. `DecodeAndScore` measures after each epoch of `fit`.
"""

from keras_transformer.evaluation.decode_and_score import DecodeAndScore
from keras_transformer.evaluation.error_rates import (
    character_error_rate,
    edit_distance,
    exact_match,
    token_error_rate,
    word_error_rate,
)
from keras_transformer.evaluation.report import METRICS, EvaluationReport, evaluate
from keras_transformer.evaluation.translation_quality import Score, bleu, chrf

__all__ = [
    "METRICS",
    "DecodeAndScore",
    "EvaluationReport",
    "Score",
    "bleu",
    "character_error_rate",
    "chrf",
    "edit_distance",
    "evaluate",
    "exact_match",
    "token_error_rate",
    "word_error_rate",
]
