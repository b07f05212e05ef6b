"""A model that writes no tokens as a function of numbers: what labels and tags are made of."""

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.tasks.compiled_model import CompiledModel
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
