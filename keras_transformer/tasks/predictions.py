"""A task whose model writes no tokens: what labels and tags are made of."""

from typing import ClassVar

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.tasks.compiled_model import CompiledModel
from keras_transformer.tasks.model_task import ModelTask
from keras_transformer.types import Tensor


class _Predictions:
    """The logits of a model; not compiled, so that a graph may hold them."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model

    def predict(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Return the logits of what a model reads, float32."""
        names = [tensor.name for tensor in self._model.inputs]
        given = inputs[0] if len(names) == 1 else dict(zip(names, inputs, strict=True))
        return ops.cast(self._model(given, training=False), "float32")


class _CompiledPredictions:
    """The logits of a model, compiled by its backend when they are first asked for."""

    def __init__(self, predictions: _Predictions, model: keras.Model) -> None:
        self._predictions, self._compiled = predictions, CompiledModel(model)

    def predict(self, inputs: tuple[tf.Tensor, ...]) -> tf.Tensor:
        """Return the logits of what a model reads."""
        [logits] = self._compiled.call("predict", lambda given: (self._predictions.predict(given),), inputs)
        return tf.constant(logits)


class PredictionTask(ModelTask):
    """A task of a model that reads a text and gives logits: what `TextClassifier` and `TextTagger` share."""

    tokenizer_names: ClassVar[tuple[str, ...]] = ("tokenizer",)
    limit_names: ClassVar[tuple[str, ...]] = ("max_length",)

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text, the end token included."""
        return self.max_source_length

    @max_length.setter
    def max_length(self, max_length: int) -> None:
        """Change the limit."""
        self.max_source_length = max_length

    @property
    def limits(self) -> dict[str, int]:
        """The maximum length of a text."""
        return {"max_length": self.max_length}

    @property
    def token_functions(self) -> _Predictions:
        """The model's logits; not compiled."""
        return _Predictions(self.model)

    def compiled_functions(self) -> _CompiledPredictions:
        """Return the model's logits, compiled when they are first asked for."""
        return _CompiledPredictions(self.token_functions, self.model)
