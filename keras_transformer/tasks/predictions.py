"""Base class of tasks whose model returns logits: text classification and tagging."""

from typing import ClassVar

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.tasks.compiled_model import CompiledModel
from keras_transformer.tasks.model_task import ModelTask
from keras_transformer.types import Tensor


class _Predictions:
    """Logits of a model, not compiled, so that they can be traced into a graph."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model

    def predict(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Return the logits of the model's inputs, float32."""
        names = [tensor.name for tensor in self._model.inputs]
        given = inputs[0] if len(names) == 1 else dict(zip(names, inputs, strict=True))
        return ops.cast(self._model(given, training=False), "float32")


class _CompiledPredictions:
    """Logits of a model, compiled by the backend on the first call."""

    def __init__(self, predictions: _Predictions, model: keras.Model) -> None:
        self._predictions, self._compiled = predictions, CompiledModel(model)

    def predict(self, inputs: tuple[tf.Tensor, ...]) -> tf.Tensor:
        """Return the logits of the model's inputs."""
        [logits] = self._compiled.call("predict", lambda given: (self._predictions.predict(given),), inputs)
        return tf.constant(logits)


class PredictionTask(ModelTask):
    """Base class of `TextClassifier` and `TextTagger`, whose model returns logits."""

    tokenizer_names: ClassVar[tuple[str, ...]] = ("tokenizer",)
    limit_names: ClassVar[tuple[str, ...]] = ("max_length",)

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text, including the end token."""
        return self.max_source_length

    @max_length.setter
    def max_length(self, max_length: int) -> None:
        """Set the maximum length."""
        self.max_source_length = max_length

    @property
    def limits(self) -> dict[str, int]:
        """Maximum length of a text."""
        return {"max_length": self.max_length}

    @property
    def token_functions(self) -> _Predictions:
        """Logits of the model, not compiled."""
        return _Predictions(self.model)

    def compiled_functions(self) -> _CompiledPredictions:
        """Return the model's logits, compiled on the first call."""
        return _CompiledPredictions(self.token_functions, self.model)
