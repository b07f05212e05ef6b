"""Classification run: labelled texts, one tokenizer, an `EncoderModel`, a `TextClassifier`."""

import logging
from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from keras_transformer.data import (
    EncodedTexts,
    classification_dataset,
    read_labelled,
)
from keras_transformer.errors import InputError
from keras_transformer.evaluation import LabelReport, evaluate_labels
from keras_transformer.models import EncoderModel
from keras_transformer.runs.config import (
    FileName,
    RunConfig,
)
from keras_transformer.runs.kind import ProgressBar, Readers
from keras_transformer.runs.labels import (
    LabelRun,
    _EncoderSection,
    _LabelSection,
    _LabelTraining,
)
from keras_transformer.tasks import Classification, Classifier, TextClassifier
from keras_transformer.types import LabelledText, Progress

_SEPARATOR = "|"

_LOGGER = logging.getLogger(__name__)


class _ClassificationSection(_LabelSection):
    """Training, validation and test texts with labels, and the length limit."""

    pairs: FileName | None = None
    """Labelled texts: a file (`.tsv`, `.csv`, `.jsonl`, plain or `.gz`), a pattern, a directory of such
    files, or a directory with a folder of `.txt` files per label. `FILE#TEXT,LABEL` selects columns by name,
    or by number from 1."""
    multi_label: bool = False
    """Allow any number of labels per text."""
    class_weight: Literal["balanced"] | None = None
    """`balanced` gives all labels the same total weight, however rare they are."""


class _ClassifierSection(_EncoderSection):
    """A preset, and any fields of an `EncoderModel` that override it."""

    pooling: Literal["mean", "max", "first"] = "mean"
    """How to pool token vectors into one vector per text."""


class ClassificationConfig(RunConfig):
    """Configuration of a run that trains a `TextClassifier` on labelled texts."""

    task: Literal["classify"] = "classify"
    """Task to train for."""
    data: _ClassificationSection = _ClassificationSection()
    model: _ClassifierSection = _ClassifierSection()
    training: _LabelTraining = _LabelTraining()


class ClassificationRun(LabelRun):
    """Run on labelled texts; an example is a text and its label or labels."""

    config_class = ClassificationConfig
    task_class = TextClassifier
    scored_class = Classifier
    dataset = staticmethod(classification_dataset)
    needs = "labelled texts: --pairs FILE"
    verb = "classify"
    template = "classification.html"
    config: ClassificationConfig

    def read_from(self, origin: Any, split: str = "train", *, unique: bool = False) -> list[Any]:
        """Read labelled texts."""
        return read_labelled(origin, multi_label=self.config.data.multi_label)

    def describe(self, example: LabelledText) -> str:
        """Return the label and the beginning of a text."""
        return f"{_shown(example[1])}  ←  {' '.join(example[0].split())[:120]}"

    def encode(
        self, examples: Sequence[LabelledText], readers: Readers, progress: ProgressBar | None
    ) -> EncodedTexts:
        """Tokenize texts and number their labels."""
        [tokenizer], data = readers, self.config.data
        return EncodedTexts.encode_labelled(
            examples, tokenizer, self.labels, multi_label=data.multi_label, max_length=data.max_length
        )

    def batches(
        self, encoded: Any, readers: Readers, tokens_per_batch: int, first_epoch: int | None, **options: Any
    ) -> tf.data.Dataset:
        """Return batches of numbered labels. Class weights apply only to training."""
        class_weight = None if first_epoch is None else self.config.data.class_weight
        options["class_weight"] = class_weight
        return super().batches(encoded, readers, tokens_per_batch, first_epoch, **options)

    def compile_model(self, model: keras.Model, learning_rate: float | LearningRateSchedule) -> None:
        """Compile a new model with Keras's classification losses."""
        super().compile_model(model, learning_rate)
        loss: Any = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        accuracy: Any = keras.metrics.SparseCategoricalAccuracy("accuracy")
        if self.config.data.multi_label:
            loss = keras.losses.BinaryCrossentropy(from_logits=True)
            accuracy = keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)  # of logits
        model.compile(model.optimizer, loss, weighted_metrics=[accuracy], jit_compile=model.jit_compile)

    def adapt_initial(self, model: Any, initial: Any) -> EncoderModel:
        """Put the outputs in the order of the labels; raise InputError if they are other labels."""
        if initial.multi_label != self.config.data.multi_label:
            raise InputError(
                "`multi_label` must be that of `initial_model`, whose outputs mean something else otherwise. "
                f"Received: {self.config.data.multi_label} where the model has {initial.multi_label}."
            )
        return super().adapt_initial(model, initial)

    def make_task(self, model: EncoderModel, readers: Readers) -> TextClassifier:
        """Make a classifier with the labels."""
        [tokenizer], data = readers, self.config.data
        return TextClassifier(
            model, tokenizer, self.labels, multi_label=data.multi_label, max_length=data.max_length
        )

    def outputs(
        self, task: Classifier, examples: Sequence[LabelledText], batch_size: int, advance: Progress | None
    ) -> list[Classification]:
        """Classify the texts."""
        return task.classify([text for text, _ in examples], batch_size=batch_size, progress=advance)

    def report(
        self, task: Classifier, examples: Sequence[LabelledText], outputs: Sequence[Classification]
    ) -> LabelReport:
        """Score the labels."""
        right = [label for _, label in examples]
        is_single = all(isinstance(label, str) for label in right)
        given = [output.label if is_single else output.labels for output in outputs]
        # The labels in the order of the model; labels that occur only in these examples follow.
        names = [*outputs[0].probabilities] if outputs else []
        wanted = {name for each in right for name in ((each,) if isinstance(each, str) else each)}
        if unknown := sorted(wanted.difference(names)):
            message = "%d labels of these texts are unknown to the model, which cannot predict them: %s"
            _LOGGER.warning(message, len(unknown), ", ".join(map(repr, unknown[:8])))
        return evaluate_labels(given, right, names)

    def source(self, example: LabelledText) -> str:
        """Return the text."""
        return example[0]

    def lines(self, examples: Sequence[LabelledText], outputs: Sequence[Classification]) -> list[str]:
        """Return a header and one line per text."""
        lines = ["labels (probability, label, text, and the right label where it differs):"]
        for (text, label), output in zip(examples, outputs, strict=False):
            given = self._given(output)
            right = "" if _shown(given) == _shown(label) else f"  ({_shown(label)})"
            beginning = " ".join(text.split())[:100]
            lines.append(f"  {output.probability:.3f}  {_shown(given)}  ←  {beginning}{right}")
        return lines

    def mistakes(
        self, examples: Sequence[LabelledText], outputs: Sequence[Classification]
    ) -> list[tuple[Any, ...]]:
        """Return misclassified texts with true label, predicted label and probability, surest first."""
        rows = [
            (text, _shown(label), _shown(self._given(output)), output.probability)
            for (text, label), output in zip(examples, outputs, strict=False)
        ]
        return sorted((row for row in rows if row[1] != row[2]), key=lambda row: -row[3])

    def _given(self, output: Classification) -> str | Sequence[str]:
        return output.labels if self.config.data.multi_label else output.label


def _shown(label: str | Sequence[str]) -> str:
    """Return a label, or labels in alphabetical order, in which two of the same are equal."""
    return label if isinstance(label, str) else _SEPARATOR.join(sorted({*label}))
