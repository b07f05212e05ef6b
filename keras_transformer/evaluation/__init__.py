"""How good translations are: exact match, error rates, BLEU and chrF.

`evaluate` measures hypotheses against one reference string each, or several, and prints as a table.
`DecodeAndScore` does so after each epoch of `fit`.
"""

from keras_transformer.evaluation.decode_and_score import DecodeAndScore
from keras_transformer.evaluation.perplexity import evaluate_texts
from keras_transformer.evaluation.report import EvaluationReport, evaluate

__all__ = ["DecodeAndScore", "EvaluationReport", "evaluate", "evaluate_texts"]
__dir__ = __all__.copy  # `dir()` shows what is public
