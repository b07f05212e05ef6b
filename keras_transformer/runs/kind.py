"""Base class of the task-specific parts of a run. Each task has one module; `Run` is the common part."""

import abc
import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from keras_transformer._arguments import check_flags, check_kind
from keras_transformer._backend.compiler import compiles_each_shape
from keras_transformer._files import Checksums
from keras_transformer.data import split_pairs
from keras_transformer.errors import InputError, NoSplitError
from keras_transformer.evaluation import EvaluationReport
from keras_transformer.models.config import PRESETS, TransformerConfig
from keras_transformer.runs.config import RunConfig
from keras_transformer.runs.recipe import choose_dropout, train_tokenizer
from keras_transformer.tasks import ModelTask, Task
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.training import compile_model
from keras_transformer.types import SPECIAL_IDS, Progress

# Factory of progress bars, from length and label. The context manager yields a function that adds a number
# of finished items.
ProgressBar: TypeAlias = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]
Readers: TypeAlias = tuple[Any, ...]
"""Tokenizers or normalizers of the examples, saved under the `tokenizer_names` of the task."""


class RunData(NamedTuple):
    """Training, validation and test examples; the kind of run defines what an example is."""

    train: Sequence[Any]
    """`encode` reads a large corpus from disk; only a sample of it is in memory."""
    validation: Sequence[Any]
    test: Sequence[Any]


class Encoded(Protocol):
    """Encoded examples."""

    @property
    def num_dropped(self) -> int:
        """Number of examples dropped as too long."""

    def __len__(self) -> int: ...

    def lengths(self) -> np.ndarray:
        """Return the lengths of the examples, int32 `(n, number of sides)`."""


class RunResults(NamedTuple):
    """Everything that the report shows of a finished run."""

    data: RunData
    readers: Readers
    training: Encoded
    task: Any
    report: EvaluationReport
    outputs: list[Any]
    directory: Path


class RunKind(abc.ABC):
    """Base class for the task-specific part of a run.

    A subclass is registered when it is defined, under the `task` of its `config_class`.

    Args:
        config: Configuration, an instance of `config_class`.
    """

    kinds: ClassVar[dict[str, type["RunKind"]]] = {}
    """Registered subclasses, by the `task` of their configuration."""
    config_class: ClassVar[type[RunConfig]]
    """Configuration class. The default of its field `task` is the name of the task."""
    task_class: ClassVar[type[ModelTask]]
    """Class of the trained task."""
    scored_class: ClassVar[type[Task]]
    """Class that `score` accepts: `task_class`, or the base class that it shares with its export."""
    model_class: ClassVar[type[keras.Model]]
    """Class of the trained model."""
    dataset: ClassVar[Callable[..., tf.data.Dataset]]
    """Static method that makes batches from encoded examples, such as `data.text_dataset`."""
    noun: ClassVar[str]
    """Name of the examples in messages, in the plural."""
    needs: ClassVar[str]
    """Required data, with its flag, for messages."""
    verb: ClassVar[str]
    """Command that runs a trained model."""
    files: ClassVar[str] = "pairs"
    """Data option that names the training files. The prefix `validation_` or `test_` names the others."""
    pad_id: ClassVar[int] = SPECIAL_IDS.pad
    """Label that the loss ignores."""
    template: ClassVar[str] = "report.html"
    """Report page in `templates/`: `report.html`, or a page that extends it."""
    max_decoded: ClassVar[int | None] = None
    """Number of scored examples to decode, the first ones. None for all."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not hasattr(cls, "config_class"):  # shared by several kinds
            return
        RunKind.kinds[cls.config_class.model_fields["task"].default] = cls

    @staticmethod
    def of(config: RunConfig) -> "RunKind":
        """Return the kind for a configuration."""
        return RunKind.kinds[config.task](config)

    def completed(self, chosen: Mapping[str, int | None]) -> Self:
        """Return a copy with unset options filled in by the given choices. Data already read are kept."""
        kind = copy.copy(self)
        kind.config = self.config.completed(chosen)
        return kind

    # Data.

    def read(self) -> RunData:
        """Read all examples. Without validation files, a part of the training examples is held out."""
        train, validation, test = self.training_part, self.read_part("validation"), self.read_part("test")
        if not validation:
            train, validation = self.hold_out(train)
        # Without test examples, the report scores the validation examples.
        return RunData(train=train, validation=validation, test=test or validation)

    @cached_property
    def training_part(self) -> list[Any]:
        """All training examples, including the held-out ones. Read once."""
        origin = self.origin("")
        if origin is None:
            raise InputError(f"A run with task={self.config.task!r} needs {self.needs}. Received: none.")
        return self.read_from(origin)

    def read_part(self, part: str) -> list[Any]:
        """Read the validation or test examples; an empty list if there are no files for them."""
        if (files := self.origin(f"{part}_")) is not None:
            return self.read_from(files)
        origin = self.origin("")
        if not _has_splits(origin):
            return []
        try:
            return self.read_from(origin, part)
        except NoSplitError:
            return []

    def origin(self, prefix: str) -> Any:
        """Return the files or dataset that an option names; None if not set.

        `prefix` is the beginning of the option's name: empty for training, `validation_` or `test_`.
        """
        return getattr(self.config.data, f"{prefix}{self.files}")

    @abc.abstractmethod
    def read_from(self, origin: Any, split: str = "train", *, unique: bool = False) -> list[Any]:
        """Read examples from files, which have no splits, or from a split of a named dataset.

        With `unique`, the columns after the second are further targets.
        """

    def hold_out(self, examples: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return training and validation examples; examples with equal sources stay together."""
        data = self.config.data
        numbered = [(self.key(example), str(number)) for number, example in enumerate(examples)]
        parts = split_pairs(numbered, validation_fraction=data.validation_fraction, seed=data.seed)
        train, validation = ([examples[int(number)] for _, number in part] for part in parts)
        return train, validation

    def key(self, example: Any) -> str:
        """Return a key that examples with equal sources share."""
        return str(example[0])

    def fingerprint(self, examples: Sequence[Any]) -> str:
        """Return a checksum of the examples and their order."""
        return Checksums.of_each(examples)  # the order decides on the batches

    @abc.abstractmethod
    def describe(self, example: Any) -> str:
        """Return an example as one line of text, to show before training."""

    @abc.abstractmethod
    def make_readers(self, data: RunData) -> Readers:
        """Make the tokenizers or normalizers from the training examples."""

    def new_tokenizer(self, texts: list[str], kind: str) -> Tokenizer:
        """Train a tokenizer of the given kind with the options of the configuration."""
        vocabulary = self.config.vocabulary
        return train_tokenizer(
            texts,
            kind,
            vocabulary.size,
            lowercase=vocabulary.lowercase,
            normalize_spaces=vocabulary.normalize_spaces,
            normalization_rule=vocabulary.normalization_rule,
        )

    def initial_readers(self, initial: Any) -> Readers:
        """Return the tokenizers or normalizers of `initial_model`, with which training starts."""
        return tuple(getattr(initial, name) for name in self.task_class.tokenizer_names)

    @property
    def longest(self) -> int:
        """Maximum length of an example, which a batch must hold."""
        limit: int = self.config.data.max_length
        return limit

    @abc.abstractmethod
    def encode(self, examples: Any, readers: Readers, progress: ProgressBar | None) -> Encoded:
        """Encode examples or a corpus; raise InputError if all exceed the limits."""

    def batches(
        self, encoded: Any, readers: Readers, tokens_per_batch: int, first_epoch: int | None, **options: Any
    ) -> tf.data.Dataset:
        """Return training batches from `first_epoch` on; if None, validation batches in a fixed order.

        `options` are further arguments of `dataset`.
        """
        return self.dataset(
            encoded,
            tokens_per_batch=tokens_per_batch,
            shuffle=first_epoch is not None,
            seed=self.config.data.seed,
            first_epoch=first_epoch or 0,
            pad_to_bucket_boundary=self.pads_to_buckets,
            **options,
        )

    @property
    def pads_to_buckets(self) -> bool:
        """Whether batches should have few shapes, because each shape is compiled."""
        return compiles_each_shape() or self.config.training.distribute == "tpu"

    # Model.

    @abc.abstractmethod
    def new_model(self, readers: Readers, dtype: keras.DTypePolicy) -> keras.Model:
        """Build an untrained model."""

    def model_config(self, readers: Readers, longest: int, **decided: object) -> TransformerConfig:
        """Return the configuration of the model; raise InputError if it exceeds the memory."""
        model = self.config.model
        asked, preset = model.changes.get("dropout"), PRESETS[model.preset].dropout
        dropout = choose_dropout(preset, readers) if asked is None else asked
        known: TransformerConfig = model.transformer(longest=longest, dropout=dropout, **decided)
        known.check_memory(bytes_per_weight=12)  # weights and Adam's two moments
        return known

    def compile_model(self, model: keras.Model, learning_rate: float | LearningRateSchedule) -> None:
        """Compile a new model with the training options."""
        recipe = self.config.training
        compile_model(
            model,
            learning_rate,
            label_smoothing=recipe.label_smoothing,
            clip_norm=recipe.clip_norm,
            ema_momentum=recipe.ema_momentum,
            gradient_accumulation_steps=recipe.gradient_accumulation_steps,
            r_drop=recipe.r_drop,
            z_loss=recipe.z_loss,
            pad_id=self.pad_id,
        )

    def adapt_initial(self, model: Any, initial: Any) -> keras.Model:
        """Return `model`, a copy of the model of the task `initial`, changed as the data need it."""
        return model

    def check_model(self, model: Any, longest: Sequence[int]) -> None:
        """Raise InputError before training if it, or a later step such as decoding, would fail.

        `longest` is the length of the longest example on each side.
        """
        # A new model has learned positions for the limits, and an initial one its own number.
        for name, length in zip(self.task_class.limit_names, longest, strict=True):
            positions = "max_source_length" if name == "max_source_length" else "max_length"
            most = getattr(model, positions, None)
            if most is not None and length > most:
                raise InputError(
                    f"`{name}` must be at most {most}, the number of positions of the model, because the "
                    f"longest of the {self.noun} needs {length}. "
                    f"Received: {name}={getattr(self.config.data, name)}."
                )

    def scoring(self, readers: Readers, examples: Sequence[Any]) -> Any | None:
        """Return the callback that scores validation examples; None if the loss is the monitor."""
        return None

    @abc.abstractmethod
    def make_task(self, model: keras.Model, readers: Readers) -> ModelTask:
        """Make the task from a trained model."""

    # Scores and report.

    def score(
        self,
        task: Any,
        examples: Sequence[Any],
        *,
        batch_size: int | None = None,
        unique: bool = False,
        progress: ProgressBar | None = None,
    ) -> tuple[EvaluationReport, list[Any]]:
        """Score a task or its export on examples; return the report and the outputs.

        With `unique`, equal examples count once, and equal sources of translations have all their targets as
        references.
        """
        check_kind(Callable, None, progress=progress)
        check_flags(unique=unique)
        checked = self.checked(examples)
        given = self.distinct(checked) if unique else checked
        decoded = given[: self.max_decoded]
        with progress(len(decoded), "scoring") if progress else nullcontext() as advance:
            outputs = self.outputs(task, decoded, batch_size or self.batch_size, advance)
        return self.report(task, given, outputs), outputs

    @property
    def batch_size(self) -> int:
        """Number of examples to decode together."""
        size: int = self.config.decoding.batch_size
        return size

    def checked(self, examples: Sequence[Any]) -> list[Any]:
        """Return examples to score; raise TypeError for others than those of the task."""
        return [*examples]

    def distinct(self, examples: Sequence[Any]) -> list[Any]:
        """Return each example once."""
        return [*{json.dumps(example): example for example in examples}.values()]

    @abc.abstractmethod
    def outputs(
        self, task: Any, examples: Sequence[Any], batch_size: int, advance: Progress | None
    ) -> list[Any]:
        """Return the outputs of a task for examples."""

    @abc.abstractmethod
    def report(self, task: Any, examples: Sequence[Any], outputs: Sequence[Any]) -> EvaluationReport:
        """Score outputs against their examples."""

    @abc.abstractmethod
    def source(self, example: Any) -> Any:
        """Return the input of an example, as a JSON value."""

    def command(self, example: Any, version: str) -> str:
        """Return a shell command that runs an export on an example."""
        # The Windows shell only knows double quotes. Quotes inside the example are dropped.
        quote = "'" if os.name == "posix" else '"'
        source = str(self.source(example)).strip().replace(quote, "")
        return f"echo {quote}{source}{quote} | keras-transformer {self.verb} --saved-model {version}"

    @abc.abstractmethod
    def lines(self, examples: Sequence[Any], outputs: Sequence[Any]) -> list[str]:
        """Return terminal lines that show outputs; the first line is a header."""

    def page(self, results: RunResults) -> dict[str, Any]:
        """Return values for the `template` of the report."""
        return {}


def _has_splits(origin: Any) -> bool:
    """Return whether data come from named datasets only; a file has no splits."""
    names = origin if isinstance(origin, list | tuple) else [origin]
    return all(str(name) == "dates" or str(name).startswith("tfds:") for name in names)
