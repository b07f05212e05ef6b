"""Text classification: an encoder with one output per label for each text, and a tokenizer."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._arguments import as_labels, check_flags
from keras_transformer.tasks.predictions import PredictionTask
from keras_transformer.tasks.results import ServedSignature
from keras_transformer.tasks.task import Task
from keras_transformer.text import Tokenizer
from keras_transformer.types import Progress, Signature, Value

_THRESHOLD = 0.5


@dataclasses.dataclass(frozen=True)
class Classification:
    """Predicted label or labels of a text, with all probabilities."""

    label: str
    """The most probable label. Empty for an empty text and for white space."""
    probability: float
    """Probability of `label`."""
    labels: tuple[str, ...]
    """The predicted labels: `label`, or with `multi_label` those with a probability of at least 0.5."""
    probabilities: dict[str, float]
    """Probability of each label. The sum is 1, except with `multi_label`."""


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
    """Base class of `TextClassifier` and `export.ServedClassifier`."""

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
        """Classify one text or several.

        Args:
            texts: A string, or strings in a list, an array, a TensorFlow tensor or a dataset; for a model
                that reads frames, an array `(s, w)` or several.
            batch_size: Number of texts to compute together.
            progress: Called after each batch with the number of its texts.

        Returns:
            A `Classification` for each text, in the same order; for a single text, not in a list. An empty
            text, or one of white space, has the label `""` and probabilities of 0.

        Raises:
            TypeError: If `texts` contains something else.

        Warns:
            TruncationWarning: Once, if texts were too long.
        """
        results: Classification | list[Classification] = self._answer(texts, batch_size, progress)
        return results


class TextClassifier(PredictionTask, Classifier):
    """Text classifier: a trained encoder, its tokenizer and the names of the labels. Also for frames.

    A text of more than `max_length` tokens is truncated, with a `TruncationWarning` per call. You may change
    `classifier.max_length`. `save` and `export.export_saved_model` keep the label names.

    Args:
        model: A built model that returns a logit for each label, `(b, c)`, such as
            `EncoderModel(v, c, pooling="mean")` or another Keras model that reads token ids.
        tokenizer: Tokenizer of the training texts. For a model that reads frames, a `data.FrameNormalizer`.
        labels: Names of the labels, in the order of the model's outputs.
        multi_label: Whether a text may have several labels (a sigmoid for each), for a model trained with
            `keras.losses.BinaryCrossentropy(from_logits=True)`. Defaults to False: one label, and the
            probabilities sum to 1 (softmax).
        max_length: Maximum number of tokens, including the end token. A value above the model's number of
            learned positions is reduced to that number. Defaults to 256.

    Raises:
        ValueError: If the vocabulary does not have the model's size, there are fewer than two labels,
            a label occurs twice, the model does not have one output per label, or `max_length` is below 2.
        TypeError: If the model is not a Keras model, or a label is not a string.

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
        check_flags(multi_label=multi_label)
        self.labels, self.multi_label = as_labels(labels=labels), multi_label
        super().__init__(model, tokenizer, max_length, (None, len(self.labels)), "label, (b, c)")

    def string_functions(self, tokens: Any) -> dict[Signature, Callable[..., dict[str, tf.Tensor]]]:
        """Return the function of the signature, which gets its logits from `tokens.predict`."""
        names, reader = tf.constant(self.labels), self.reader
        multi_label, max_length = self.multi_label, self.max_length

        def classify(*columns: tf.Tensor) -> dict[str, tf.Tensor]:
            batch = columns[: len(reader.columns)]
            inputs, is_cut = reader.read(batch, max_length)
            logits = tf.convert_to_tensor(tokens.predict(inputs))  # (b, c)
            # A blank text has no label, regardless of the model's output.
            is_text = ~reader.is_empty(batch)[:, tf.newaxis]
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
