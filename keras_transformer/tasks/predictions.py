"""Base class of tasks whose model returns logits: text classification and tagging."""

from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from keras_transformer._arguments import check_number
from keras_transformer.tasks.model_task import ModelTask
from keras_transformer.types import Tensor


class _Predictions(NamedTuple):
    """Logits of a model, not compiled, so that they can be traced into a graph."""

    model: keras.Model

    def predict(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Return the logits of the model's inputs, float32."""
        names = [tensor.name for tensor in self.model.inputs]
        given = inputs[0] if len(names) == 1 else dict(zip(names, inputs, strict=True))
        return ops.cast(self.model(given, training=False), "float32")


class PredictionTask(ModelTask):
    """Base class of `TextClassifier` and `TextTagger`, whose model returns logits."""

    tokenizer_names: ClassVar[tuple[str, ...]] = ("tokenizer",)
    limit_names: ClassVar[tuple[str, ...]] = ("max_length",)

    @property
    def tokenizer(self) -> Any:
        """Tokenizer of the texts, or another reader."""
        return self.reader

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text, including the end token."""
        return self.max_source_length

    @max_length.setter
    def max_length(self, max_length: int) -> None:
        """Set the maximum length."""
        check_number(at_least=2, whole=True, max_length=max_length)
        self.max_source_length = max_length

    @property
    def token_functions(self) -> _Predictions:
        """Logits of the model, not compiled."""
        return _Predictions(self.model)
