"""Evaluation: BLEU, chrF, exact match, error rates, F1 of labels and tags, perplexity.

`evaluate` scores outputs against references, `evaluate_labels` the labels of texts, `evaluate_tags` the tags
of tokens, and `evaluate_texts` a language model. `DecodeAndScore` scores a model during `fit`.
"""

from keras_transformer.evaluation.decode_and_score import DecodeAndScore
from keras_transformer.evaluation.label_report import (
    LabelReport,
    LabelScore,
    evaluate_labels,
    evaluate_tags,
)
from keras_transformer.evaluation.perplexity import evaluate_texts
from keras_transformer.evaluation.report import EvaluationReport, evaluate

__all__ = [
    "DecodeAndScore",
    "EvaluationReport",
    "LabelReport",
    "LabelScore",
    "evaluate",
    "evaluate_labels",
    "evaluate_tags",
    "evaluate_texts",
]
__dir__ = __all__.copy  # `dir()` shows what is public
