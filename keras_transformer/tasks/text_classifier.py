"""Strings in, labels out: an encoder with one output for a text, and a tokenizer."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._arguments import as_labels, check_flags, check_kind, check_number
from keras_transformer.tasks.predictions import PredictionTask
from keras_transformer.tasks.results import ServedSignature
from keras_transformer.tasks.sources import Source, TextSource, _check_vocabulary
from keras_transformer.tasks.task import Task
from keras_transformer.text import Tokenizer
from keras_transformer.types import Progress, Signature, Value

_THRESHOLD = 0.5


@dataclasses.dataclass(frozen=True)
class Classification:
    """The label of a text, or its labels, with the probabilities of all."""

    label: str
    """The most probable label; empty for a text of white space alone."""
    probability: float
    """Its probability."""
    labels: tuple[str, ...]
    """The labels that are given: this one, or with `multi_label` those with a probability of at least 0.5."""
    probabilities: dict[str, float]
    """The probability of each label. They sum to 1, unless a text may have several labels."""


def _classification(
    label: bytes, probability: float, names: np.ndarray, probabilities: np.ndarray, is_label: np.ndarray
) -> Classification:
    decoded = [name.decode("utf-8") for name in names]
    return Classification(
        label.decode("utf-8"),
        float(probability),
        tuple(name for name, is_given in zip(decoded, is_label, strict=True) if is_given),
        dict(zip(decoded, map(float, probabilities), strict=True)),
    )


class Classifier(Task):
    """What gives texts labels: base of `TextClassifier` and `export.ServedClassifier`."""

    signatures: ClassVar[Mapping[Signature, ServedSignature]] = {
        "serving_default": ServedSignature(
            {},
            {
                "label": ("string", 1),
                "probability": ("float32", 1),
                "labels": ("string", 2),
                "probabilities": ("float32", 2),
                "is_label": ("bool", 2),
            },
            _classification,
        )
    }
    noun: ClassVar[str] = "classifier"

    def classify(self, texts: Iterable[Value], batch_size: int = 64, progress: Progress | None = None) -> Any:
        """Give one text its label, or any number of them.

        Args:
            texts: A string, or strings in a list, an array, a tensor of TensorFlow or a dataset.
            batch_size: Number of texts that are computed together.
            progress: Called after each batch with the number of texts in it.

        Returns:
            The label of each text with its probability, in the same order; for a single string one. An empty
            text, or one of white space alone, has the label `""` and no probabilities but 0.

        Raises:
            TypeError: If `texts` holds something else.

        Warns:
            TruncationWarning: Once, if texts were too long.
        """
        is_one = self.source.is_one(texts)
        sources = self.source.check("texts", [texts] if is_one else texts)
        results: list[Classification] = self._in_batches("serving_default", sources, batch_size, progress)
        return results[0] if is_one else results


class TextClassifier(PredictionTask, Classifier):
    """Give texts labels with a trained encoder.

    A text is cut off after `max_length` tokens; a call that cuts one off warns once with a
    `TruncationWarning`. `max_length` may be assigned. `save`, `load` and `export.export_saved_model` keep the
    names of the labels with the model.

    Args:
        model: A model with weights whose output is a logit for each label, `(b, c)`, such as
            `EncoderModel(v, c, pooling="mean")`, or a Keras model of your own that reads token ids.
        tokenizer: The tokenizer of the texts that it was trained on; for frames a `data.FrameNormalizer`.
        labels: The names of the labels, in the order of the model's outputs.
        multi_label: Whether a text has any number of labels, each with a probability of its own (a sigmoid);
            the model was trained with `keras.losses.BinaryCrossentropy(from_logits=True)`. If False, a text
            has one label, and all probabilities sum to 1 (a softmax).
        max_length: Maximum number of tokens of a text, the end token included. Where positions are learned,
            at most their number.

    Raises:
        ValueError: If the tokenizer's vocabulary does not have the model's size, the model does not have an
            output for each label, labels repeat or are fewer than two, or `max_length` is below 2.
        TypeError: If the model is not a Keras model, or a label not a string.

    Example:
        ```python
        classifier = kt.TextClassifier(model, tokenizer, labels=["ham", "spam"])
        classifier.classify("You have won!").label
        ```
    """

    options_file: ClassVar[str] = "classifier.json"
    option_types: ClassVar[dict[str, Any]] = {"labels": tuple[str, ...], "multi_label": bool}
    readme_template: ClassVar[str] = "text_classifier.md"

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        multi_label: bool = False,
        max_length: int = 256,
    ) -> None:
        check_kind(keras.Model, model=model)
        check_flags(multi_label=multi_label)
        check_number(at_least=2, whole=True, max_length=max_length)
        self.labels = as_labels(labels=labels)
        source = Source.of(tokenizer)
        _check_source(model, source, tokenizer)
        _check_outputs(model, (None, len(self.labels)), "label, (b, c)")
        super().__init__(model, source, max_length)
        self.tokenizer = tokenizer
        self.multi_label = multi_label

    def string_functions(self, tokens: Any) -> dict[Signature, Callable[..., dict[str, tf.Tensor]]]:
        """Return the function of the signature over the model's logits, compiled or traced."""
        names, source = tf.constant(self.labels), self.source
        multi_label, max_length = self.multi_label, self.max_length

        def classify(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
            batch = columns[: len(source.columns)]
            inputs, is_cut = source.read(batch, max_length)
            logits = tf.convert_to_tensor(tokens.predict(inputs))  # (b, c)
            # A blank text has no label, whatever the model makes of it.
            is_text = ~source.is_empty(batch)[:, tf.newaxis]
            probabilities = tf.sigmoid(logits) if multi_label else tf.nn.softmax(logits)
            probabilities = tf.where(is_text, probabilities, 0.0)
            best = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (b,)
            is_best = best[:, tf.newaxis] == tf.range(len(names))
            return {
                "label": tf.where(is_text[:, 0], tf.gather(names, best), ""),
                "probability": tf.reduce_max(probabilities, axis=-1),
                "labels": tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1]),
                "probabilities": probabilities,
                "is_label": (probabilities >= _THRESHOLD) if multi_label else is_best & is_text,
                "is_cut": is_cut,
            }

        return {"serving_default": classify}


def _check_source(model: keras.Model, source: Source, tokenizer: Tokenizer) -> None:
    if not isinstance(source, TextSource):
        source.check_model(model)
    elif (embedding := getattr(model, "source_embedding", None)) is not None:
        _check_vocabulary("tokenizer", tokenizer, embedding.vocabulary_size)
    else:  # a Keras model of the user's own, whose vocabulary is not known
        check_kind(Tokenizer, tokenizer=tokenizer)


def _check_outputs(model: keras.Model, wanted: tuple[int | None, ...], meaning: str) -> None:
    """Raise ValueError for a model whose outputs are known to have another shape."""
    shape = getattr(model, "output_shape", wanted)
    if not isinstance(shape, tuple) or len(shape) != len(wanted) or shape[-1] != wanted[-1]:
        raise ValueError(
            f"`model` must have an output for each {meaning}. Received: {wanted[-1]} names, outputs of shape "
            f"{shape}."
        )
