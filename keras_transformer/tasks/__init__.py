"""Tasks: a model with its tokenizers, from raw data to results, in memory and on a server."""

from keras_transformer.tasks.model_task import ModelTask
from keras_transformer.tasks.results import (
    Alignment,
    PairScore,
    ServedSignature,
    TokenScore,
    Translation,
    TruncationWarning,
)
from keras_transformer.tasks.search_task import SearchTask
from keras_transformer.tasks.task import Task
from keras_transformer.tasks.text_classifier import Classification, Classifier, TextClassifier
from keras_transformer.tasks.text_generator import TextGenerator
from keras_transformer.tasks.text_tagger import Tagger, Tagging, TextSpan, TextTagger
from keras_transformer.tasks.text_task import TextTask
from keras_transformer.tasks.translator import Translator

__all__ = [
    "Alignment",
    "Classification",
    "Classifier",
    "ModelTask",
    "PairScore",
    "SearchTask",
    "ServedSignature",
    "Tagger",
    "Tagging",
    "Task",
    "TextClassifier",
    "TextGenerator",
    "TextSpan",
    "TextTagger",
    "TextTask",
    "TokenScore",
    "Translation",
    "Translator",
    "TruncationWarning",
]
__dir__ = __all__.copy  # `dir()` shows what is public
