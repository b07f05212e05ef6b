"""What classification and tagging runs share: texts with labels, one tokenizer, an `EncoderModel`."""

import abc
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, cast

import keras
import numpy as np
from keras import ops
from pydantic import model_validator

from keras_transformer.data import EncodedTexts, label_names
from keras_transformer.errors import InputError
from keras_transformer.models import EncoderModel
from keras_transformer.runs.config import FileName, Fraction, _DataSection, _ModelSection, _TrainingSection
from keras_transformer.runs.kind import Readers, RunData, RunKind, RunResults
from keras_transformer.runs.recipe import choose_kind
from keras_transformer.runs.report import text_side
from keras_transformer.types import Length

_NUM_MISTAKES = 12
_MAX_SHOWN = 8  # labels in a message


class _LabelSection(_DataSection):
    """Validation and test texts with labels, and the length limit."""

    validation_pairs: FileName | None = None
    """Validation texts, to select the best epoch. Defaults to a held-out part of the training data."""
    test_pairs: FileName | None = None
    """Test texts, to score after training."""
    max_length: Length = 256
    """Maximum text length in tokens, including the end token. Longer texts are truncated."""


class _EncoderSection(_ModelSection):
    """A preset, and any fields of an `EncoderModel` that override it."""

    decided_elsewhere: ClassVar[tuple[str, ...]] = (
        *_ModelSection.decided_elsewhere_of_one_stack,
        *("tie_output", "output_bias"),
    )


class _LabelTraining(_TrainingSection):
    """Training options of classification and tagging."""

    label_smoothing: Fraction = 0.0
    """Must be 0 for this task."""
    monitor: Literal["loss"] = "loss"
    """Validation metric that selects the best epoch. Other metrics than `loss` need task `translate` or
    `frames`."""

    @model_validator(mode="after")
    def _check(self) -> "_LabelTraining":
        for name in ("label_smoothing", "r_drop", "z_loss"):
            if value := getattr(self, name):
                raise ValueError(f"`{name}` is for tasks that write tokens. Received: {name}={value}.")
        return self


class LabelRun(RunKind):
    """Base class of runs on texts with labels; an example is a text, or its tokens, and its labels."""

    model_class = EncoderModel
    noun = "texts"
    batch_size = 64

    @cached_property
    def labels(self) -> list[str]:
        """Labels of all training texts, including the held-out ones."""
        return label_names(self.training_part)

    def make_readers(self, data: RunData) -> Readers:
        """Train the tokenizer, from training texts only."""
        texts = [self.source(example) for example in data.train]
        return (self.new_tokenizer(texts, choose_kind(self.config.vocabulary.kind, texts, texts)),)

    def new_model(self, readers: Readers, dtype: keras.DTypePolicy) -> EncoderModel:
        """Build a model with one output per label."""
        [tokenizer] = readers
        options = self.config.model.of_one_stack(self.model_config(readers, self.longest))
        # Without pooling, as in tagging, the model has an output for each token.
        pooling = getattr(self.config.model, "pooling", None)
        return EncoderModel(
            tokenizer.vocabulary_size, len(self.labels), pooling=pooling, **options, dtype=dtype
        )

    def adapt_initial(self, model: Any, initial: Any) -> EncoderModel:
        """Put the outputs in the order of the labels; raise InputError for other labels."""
        theirs, ours = list(getattr(initial, "labels", None) or initial.tags), self.labels
        if {*theirs} != {*ours}:
            only = [
                sorted({*some} - {*others})[:_MAX_SHOWN] for some, others in ((theirs, ours), (ours, theirs))
            ]
            raise InputError(
                "`initial_model` must have been trained on the same labels. Received: "
                f"{only[0]} only in the model, {only[1]} only in {self.config.data.pairs}."
            )
        order = [theirs.index(label) for label in ours]
        for weight in model.output_projection.weights:
            if weight.name != "lora_kernel_a":  # the one without outputs, (d, rank)
                weight.assign(ops.take(weight, order, axis=-1))
        return cast("EncoderModel", model)

    def page(self, results: RunResults) -> dict[str, Any]:
        """Return the mistakes and the vocabulary."""
        training = cast("EncodedTexts", results.training)
        [tokenizer], test = results.readers, results.data.test
        token_ids, lengths = training.inputs.flat_values.numpy(), training.lengths()[:, 0]
        texts = [self.source(example) for example in test]
        wrong = self.mistakes(test, results.outputs)
        report: Any = results.report
        return {
            "mistakes": wrong[:_NUM_MISTAKES],
            "num_mistakes": len(wrong),
            "largest": 1 if report.confusion is None else max(1, int(np.max(report.confusion))),
            "sides": [text_side("text", tokenizer, lengths, self.longest, token_ids, texts)],
        }

    @abc.abstractmethod
    def mistakes(self, examples: Sequence[Any], outputs: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the wrong outputs, as the template shows them."""
