"""Base class of tasks whose model returns logits: text classification and tagging."""

from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from keras_transformer._arguments import check_kind, check_number
from keras_transformer.tasks.model_task import ModelTask
from keras_transformer.tasks.readers import _check_reader
from keras_transformer.text import Reader
from keras_transformer.types import Tensor


class _Predictions(NamedTuple):
    """Logits of a model, not compiled, so that they can be traced into a graph."""

    model: keras.Model

    def predict(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Return the logits of the model's inputs, float32."""
        return ops.cast(self.model(self._named(inputs), training=False), "float32")

    def _named(self, inputs: tuple[Tensor, ...]) -> Tensor | dict[str, Tensor]:
        """Return one tensor, or several by the names of the model's inputs."""
        if len(inputs) == 1:
            return inputs[0]
        # A subclassed Keras model does not have them.
        given = getattr(self.model, "inputs", None)
        if given is None:
            wanted = f"`model` must name its {len(inputs)} inputs, as Functional models do"
            raise TypeError(f"{wanted}. Received: a {type(self.model).__name__}.")
        return dict(zip([tensor.name for tensor in given], inputs, strict=True))


class PredictionTask(ModelTask):
    """Base class of `TextClassifier` and `TextTagger`, whose model returns logits."""

    tokenizer_names: ClassVar[tuple[str, ...]] = ("tokenizer",)
    limit_names: ClassVar[tuple[str, ...]] = ("max_length",)

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Reader,
        max_length: int,
        output_shape: tuple[int | None, ...],
        meaning: str,
    ) -> None:
        check_kind(keras.Model, model=model)
        _check_reader("tokenizer", tokenizer, model)
        shape = getattr(model, "output_shape", output_shape)  # if it is known
        num_names = output_shape[-1]
        if not isinstance(shape, tuple) or len(shape) != len(output_shape) or shape[-1] != num_names:
            raise ValueError(
                f"`model` must have an output for each {meaning}. Received: {num_names} names, outputs of "
                f"shape {shape}."
            )
        super().__init__(model, tokenizer)
        self.max_length = max_length

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
