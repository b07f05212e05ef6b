"""Classification run: labelled texts, one tokenizer, an `EncoderModel`, a `TextClassifier`."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, ClassVar, Literal

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule
from pydantic import model_validator

from keras_transformer.data import (
    EncodedLabels,
    classification_dataset,
    label_names,
    read_labelled,
)
from keras_transformer.errors import InputError
from keras_transformer.evaluation import LabelReport, evaluate_labels
from keras_transformer.models import EncoderModel
from keras_transformer.runs.config import (
    FileName,
    Fraction,
    RunConfig,
    _DataSection,
    _ModelSection,
    _TrainingSection,
)
from keras_transformer.runs.kind import Progress, Readers, RunData, RunKind, RunResults
from keras_transformer.runs.recipe import choose_kind
from keras_transformer.runs.report import text_side
from keras_transformer.tasks import Classification, Classifier, TextClassifier
from keras_transformer.training import compile_model
from keras_transformer.types import LabelledText, Length

_NUM_EXAMPLES = 12
_SEPARATOR = "|"
_BATCH_SIZE = 64  # texts to score together


class _LabelledSection(_DataSection):
    """Training, validation and test texts with labels, and the length limit."""

    pairs: FileName | None = None
    """Labelled texts: a file (`.tsv`, `.csv`, `.jsonl`, plain or `.gz`), a pattern, a directory of such
    files, or one with a folder of `.txt` files per label. `FILE#TEXT,LABEL` selects columns by name, or by
    number from 1."""
    validation_pairs: FileName | None = None
    """Validation texts, to select the best epoch. Defaults to a held-out part of the training data."""
    test_pairs: FileName | None = None
    """Test texts, to score after training."""
    multi_label: bool = False
    """Allow any number of labels per text."""
    class_weight: Literal["balanced"] | None = None
    """`balanced` gives all labels the same total weight, however rare they are."""
    max_length: Length = 256
    """Maximum text length in tokens, including the end token. Longer texts are truncated."""


class _EncoderSection(_ModelSection):
    """A preset, and any fields of an `EncoderModel` that override it."""

    decided_elsewhere: ClassVar[tuple[str, ...]] = (
        *(name for name in _ModelSection.decided_elsewhere if name != "num_layers"),
        *("num_encoder_layers", "num_decoder_layers", "share_embeddings", "share_positions"),
        *("tie_output", "output_bias"),
    )

    pooling: Literal["mean", "max", "first"] = "mean"
    """How to pool token vectors into one vector per text."""


class _ClassificationTraining(_TrainingSection):
    """Training options of classification and tagging."""

    label_smoothing: Fraction = 0.0
    """Must be 0 for this task."""
    monitor: Literal["loss"] = "loss"
    """Validation metric that selects the best epoch. Other metrics than `loss` need task `translate` or
    `frames`."""

    @model_validator(mode="after")
    def _check(self) -> "_ClassificationTraining":
        for name in ("label_smoothing", "r_drop", "z_loss"):
            if value := getattr(self, name):
                raise ValueError(f"`{name}` is for tasks that write tokens. Received: {name}={value}.")
        return self


class ClassificationConfig(RunConfig):
    """Configuration of a run that trains a `TextClassifier` on labelled texts."""

    task: Literal["classify"] = "classify"
    """Task to train for."""
    data: _LabelledSection = _LabelledSection()
    model: _EncoderSection = _EncoderSection()
    training: _ClassificationTraining = _ClassificationTraining()


class ClassificationRun(RunKind):
    """Run on labelled texts; an example is a text and its label or labels."""

    config_class = ClassificationConfig
    task_class = TextClassifier
    model_class = EncoderModel
    scored_class = Classifier
    noun = "texts"
    needs = "labelled texts: --pairs FILE"
    verb = "classify"
    template = "classification.html"
    config: ClassificationConfig

    def origin(self, prefix: str) -> str | None:
        """Return the file of labelled texts."""
        origin: str | None = getattr(self.config.data, f"{prefix}pairs")
        return origin

    def read_from(
        self, origin: Any, split: str = "train", *, optional: bool = False, unique: bool = False
    ) -> list[Any]:
        """Read labelled texts."""
        return [] if optional else read_labelled(origin, multi_label=self.config.data.multi_label)

    @cached_property
    def labels(self) -> list[str]:
        """Labels of all training texts, including the held-out ones."""
        return label_names(self.training_part)

    def describe(self, example: LabelledText) -> str:
        """Return the label and the beginning of a text."""
        return f"{_shown(example[1])}  ←  {' '.join(example[0].split())[:120]}"

    def make_readers(self, data: RunData) -> Readers:
        """Train the tokenizer, from training texts only."""
        texts = [text for text, _ in data.train]
        return (self.new_tokenizer(texts, choose_kind(self.config.vocabulary.kind, texts, texts)),)

    @property
    def longest(self) -> int:
        """Maximum length of a text, in tokens."""
        return self.config.data.max_length

    def encode(
        self, examples: Sequence[LabelledText], readers: Readers, progress: Progress | None
    ) -> EncodedLabels:
        """Tokenize texts and number their labels."""
        [tokenizer], data = readers, self.config.data
        return EncodedLabels.encode(
            examples, tokenizer, self.labels, multi_label=data.multi_label, max_length=data.max_length
        )

    def batches(
        self, encoded: EncodedLabels, readers: Readers, tokens_per_batch: int, first_epoch: int | None
    ) -> tf.data.Dataset:
        """Return batches of `classification_dataset`. Class weights apply only to training."""
        return classification_dataset(
            encoded,
            labels=self.labels,
            class_weight=None if first_epoch is None else self.config.data.class_weight,
            tokens_per_batch=tokens_per_batch,
            shuffle=first_epoch is not None,
            seed=self.config.data.seed,
            first_epoch=first_epoch or 0,
            pad_to_bucket_boundary=self.pads_to_buckets,
        )

    def new_model(self, readers: Readers, dtype: keras.DTypePolicy) -> EncoderModel:
        """Build a model with one output per label."""
        [tokenizer], model = readers, self.config.model
        options = model.of_one_stack(self.model_config(readers, self.longest))
        return EncoderModel(
            tokenizer.vocabulary_size, len(self.labels), pooling=model.pooling, **options, dtype=dtype
        )

    def compile_model(self, model: keras.Model, learning_rate: float | LearningRateSchedule) -> None:
        """Compile a new model with Keras's classification losses."""
        recipe = self.config.training
        compile_model(
            model,
            learning_rate,
            clip_norm=recipe.clip_norm,
            ema_momentum=recipe.ema_momentum,
            gradient_accumulation_steps=recipe.gradient_accumulation_steps,
        )
        loss: Any = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        accuracy: Any = keras.metrics.SparseCategoricalAccuracy("accuracy")
        if self.config.data.multi_label:
            loss = keras.losses.BinaryCrossentropy(from_logits=True)
            accuracy = keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)  # of logits
        model.compile(model.optimizer, loss, weighted_metrics=[accuracy], jit_compile=model.jit_compile)

    def check_model(self, model: EncoderModel) -> None:
        """Raise InputError if the initial model has another number of labels."""
        if model.output_shape[-1] != len(self.labels):
            raise InputError(
                "`initial_model` must have been trained on the same labels. Received: "
                f"{model.output_shape[-1]} labels, and {len(self.labels)} in {self.config.data.pairs}."
            )

    def make_task(self, model: EncoderModel, readers: Readers) -> TextClassifier:
        """Make a classifier with the labels."""
        [tokenizer], data = readers, self.config.data
        return TextClassifier(
            model, tokenizer, self.labels, multi_label=data.multi_label, max_length=data.max_length
        )

    def score(
        self,
        task: Classifier,
        examples: Sequence[LabelledText],
        *,
        batch_size: int | None = None,
        unique: bool = False,
        progress: Progress | None = None,
    ) -> tuple[LabelReport, list[Classification]]:
        """Classify the texts and score the labels."""
        given = [*dict.fromkeys(examples)] if unique else examples
        return score_labels(task, given, batch_size=batch_size or _BATCH_SIZE, progress=progress)

    def source(self, example: LabelledText) -> str:
        """Return the text."""
        return example[0]

    def lines(self, examples: Sequence[LabelledText], outputs: Sequence[Classification]) -> list[str]:
        """Return a header and one line per text."""
        lines = ["labels (probability, label, text, and the right label where it differs):"]
        for (text, label), output in zip(examples, outputs, strict=False):
            given = output.labels if self.config.data.multi_label else output.label
            right = "" if _shown(given) == _shown(label) else f"  ({_shown(label)})"
            beginning = " ".join(text.split())[:100]
            lines.append(f"  {output.probability:.3f}  {_shown(given)}  ←  {beginning}{right}")
        return lines

    def page(self, results: RunResults) -> dict[str, Any]:
        """Return scores per label, the most confident mistakes, and the vocabulary."""
        training: Any = results.training
        [tokenizer], texts = results.readers, [text for text, _ in results.data.test]
        multi_label = self.config.data.multi_label
        rows = [
            (text, _shown(label), _shown(output.labels if multi_label else output.label), output.probability)
            for (text, label), output in zip(results.data.test, results.outputs, strict=False)
        ]
        wrong = sorted((row for row in rows if row[1] != row[2]), key=lambda row: -row[3])
        token_ids = training.token_ids.flat_values.numpy()
        lengths = training.lengths()[:, 0]
        report: Any = results.report
        return {
            "mistakes": wrong[:_NUM_EXAMPLES],
            "num_mistakes": len(wrong),
            "largest": 1 if report.confusion is None else max(1, int(np.max(report.confusion))),
            "sides": [text_side("text", tokenizer, lengths, self.longest, token_ids, texts)],
        }


def score_labels(
    classifier: Classifier,
    examples: Sequence[LabelledText],
    *,
    batch_size: int = _BATCH_SIZE,
    progress: Progress | None = None,
) -> tuple[LabelReport, list[Classification]]:
    """Classify texts and score the labels against the true ones.

    Args:
        classifier: A `TextClassifier` or an `export.ServedClassifier`.
        examples: Texts, each with a label or a tuple of labels.
        batch_size: Number of texts to compute together. Defaults to 64.
        progress: As for `score`.

    Returns:
        The scores, and the classification of each text.
    """
    texts = [text for text, _ in examples]
    with progress(len(texts), "scoring") if progress else nullcontext() as advance:
        outputs = classifier.classify(texts, batch_size=batch_size, progress=advance)
    right = [label for _, label in examples]
    is_single = all(isinstance(label, str) for label in right)
    given = [output.label if is_single else output.labels for output in outputs]
    # The labels in the order of the model; labels that occur only in these examples follow.
    names = [*outputs[0].probabilities] if outputs else []
    return evaluate_labels(given, right, names), outputs


def _shown(label: str | Sequence[str]) -> str:
    return label if isinstance(label, str) else _SEPARATOR.join(label)
