"""Training runs: configuration, directory, data, training and report."""

from keras_transformer.runs.classification import ClassificationRun
from keras_transformer.runs.config import RunConfig
from keras_transformer.runs.frames import FrameRun
from keras_transformer.runs.generation import GenerationRun
from keras_transformer.runs.kind import RunKind
from keras_transformer.runs.recipe import Recipe
from keras_transformer.runs.run import Run
from keras_transformer.runs.tagging import TaggingRun
from keras_transformer.runs.translation import TranslationRun

_KINDS = (
    TranslationRun,
    GenerationRun,
    ClassificationRun,
    TaggingRun,
    FrameRun,
)  # importing a kind registers it

__all__ = ["Recipe", "Run", "RunConfig", "RunKind"]
__dir__ = __all__.copy  # `dir()` shows what is public
