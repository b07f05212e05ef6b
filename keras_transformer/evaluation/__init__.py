"""How good outputs are: exact match, error rates, BLEU and chrF of translations; F1 of labels and tags.

`evaluate` measures hypotheses against one reference string each, or several, and prints as a table.
`DecodeAndScore` does so after each epoch of `fit`. `evaluate_labels` compares the labels of texts with those
that are right, and `evaluate_tags` the tags of their tokens.
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
