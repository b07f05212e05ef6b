"""What a run trains: a kind is one file. `Run` tells the story, a kind what is special to its task."""

import abc
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from keras_transformer._backend.compiler import compiles_each_shape
from keras_transformer.data import split_pairs
from keras_transformer.errors import InputError
from keras_transformer.evaluation import EvaluationReport
from keras_transformer.models.config import PRESETS, TransformerConfig
from keras_transformer.runs.config import RunConfig
from keras_transformer.runs.recipe import choose_dropout, train_tokenizer
from keras_transformer.tasks import ModelTask, Task
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.training import compile_model

# Shows something long with its length and its name; what it gives is told how many more items are done.
Progress: TypeAlias = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]
Readers: TypeAlias = tuple[Any, ...]
"""What turns examples into numbers; a run saves them under the names that the task has for them."""


class Corpus(Protocol):
    """Training examples that are more than memory holds."""

    @property
    def fingerprint(self) -> str:
        """What other examples would change."""

    @property
    def num_examples(self) -> int:
        """How many there are to train on."""


class RunData(NamedTuple):
    """Examples to train, validate and test on; an example is what the kind makes of it."""

    train: Sequence[Any]
    """Of a large corpus the sample that its readers are made from."""
    validation: Sequence[Any]
    test: Sequence[Any]
    corpus: Corpus | None = None

    @property
    def num_train(self) -> int:
        """How many examples there are to train on."""
        return len(self.train) if self.corpus is None else self.corpus.num_examples


class Encoded(Protocol):
    """Examples in numbers."""

    @property
    def num_dropped(self) -> int:
        """How many were left out as too long."""

    def __len__(self) -> int: ...

    def lengths(self) -> np.ndarray:
        """Return the lengths of each example, int32 (n, number of sides)."""


class RunResults(NamedTuple):
    """What a run has when it is trained and scored."""

    data: RunData
    readers: Readers
    training: Encoded
    task: Any
    report: EvaluationReport
    outputs: list[Any]
    directory: Path


class RunKind(abc.ABC):
    """What is special to a task: a subclass in a file of its own, which `runs` imports.

    `RunConfig` finds it by the `task` of its `config_class`.

    Args:
        config: of the run, an object of `config_class`.
    """

    kinds: ClassVar[dict[str, type["RunKind"]]] = {}
    """The subclasses by the `task` of their configuration."""
    config_class: ClassVar[type[RunConfig]]
    """The options of such a run; its field `task` has the name as its default."""
    task_class: ClassVar[type[ModelTask]]
    """What a run ends with."""
    scored_class: ClassVar[type[Task]]
    """What `score` takes: `task_class`, or what it has in common with an export."""
    model_class: ClassVar[type[keras.Model]]
    """What it trains."""
    noun: ClassVar[str]
    """What examples are called in messages, in the plural."""
    needs: ClassVar[str]
    """What to train on, and the flag that names it."""
    verb: ClassVar[str]
    """The command that asks a model of this kind."""
    template: ClassVar[str] = "report.html"
    """The page of the report in `templates/`: `report.html`, or one that extends it."""
    pictures: ClassVar[tuple[str, ...]] = ()
    """Files that `page` writes to the run's directory."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        RunKind.kinds[cls.config_class.model_fields["task"].default] = cls

    @staticmethod
    def of(config: RunConfig) -> "RunKind":
        """Return the kind that a configuration asks for."""
        return RunKind.kinds[config.task](config)

    # What a run trains on.

    def read(self) -> RunData:
        """Read all examples; validation examples are held out from the others where they have no origin."""
        train, validation, test = self.training_part, self.read_part("validation"), self.read_part("test")
        if not validation:
            train, validation = self.hold_out(train)
        # Without test examples, the report is of those that choose the best epoch.
        return RunData(train=train, validation=validation, test=test or validation)

    @cached_property
    def training_part(self) -> list[Any]:
        """The examples to train on, those that are held out included; read once."""
        origin = self.origin("")
        if origin is None:
            raise InputError(f"A run with task={self.config.task!r} needs {self.needs}. Received: none.")
        return self.read_from(origin)

    def read_part(self, part: str) -> list[Any]:
        """Read the examples to validate or test on; none where they have no origin of their own."""
        origin = self.origin(f"{part}_")
        if origin is not None:
            return self.read_from(origin)
        return self.read_from(self.origin(""), part, optional=True)  # a split of the same dataset

    @abc.abstractmethod
    def origin(self, prefix: str) -> Any:
        """Return where the examples are that options with a prefix name; None if they name nothing."""

    @abc.abstractmethod
    def read_from(
        self, origin: Any, split: str = "train", *, optional: bool = False, unique: bool = False
    ) -> list[Any]:
        """Read examples from an origin, or a split of a dataset that has splits.

        A file has none: then there are no examples if they are optional, and all of the file if not.
        `unique` is as for `score`.
        """

    def hold_out(self, examples: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the examples to train on, and those to validate on; equal sources stay together."""
        data = self.config.data
        numbered = [(self.key(example), str(number)) for number, example in enumerate(examples)]
        parts = split_pairs(numbered, validation_fraction=data.validation_fraction, seed=data.seed)
        train, validation = ([examples[int(number)] for _, number in part] for part in parts)
        return train, validation

    def key(self, example: Any) -> str:
        """Return what examples with equal sources have in common."""
        return str(example[0])

    def fingerprint(self, examples: Sequence[Any]) -> str:
        """Return what other examples, or another order of them, would change."""
        digest = hashlib.sha256()
        # As JSON, so that no two lists are the same bytes; in order, which decides on the batches.
        for example in examples:
            digest.update(json.dumps(example).encode() + b"\n")
        return digest.hexdigest()

    @abc.abstractmethod
    def describe(self, example: Any) -> str:
        """Return an example as a line, to be looked at before the training."""

    @abc.abstractmethod
    def make_readers(self, data: RunData) -> Readers:
        """Make the readers, from training examples alone."""

    def new_tokenizer(self, texts: list[str], kind: str) -> Tokenizer:
        """Train a tokenizer of a kind, as the configuration wants it."""
        vocabulary = self.config.vocabulary
        return train_tokenizer(
            texts,
            kind,
            vocabulary.size,
            lowercase=vocabulary.lowercase,
            normalize_spaces=vocabulary.normalize_spaces,
        )

    def initial_readers(self, initial: Any) -> Readers:
        """Return the readers of the task that a run begins with."""
        return tuple(getattr(initial, name) for name in self.task_class.tokenizer_names)

    @property
    @abc.abstractmethod
    def longest(self) -> int:
        """Length of the longest example that a run takes, which a batch must hold."""

    @abc.abstractmethod
    def encode(self, examples: Any, readers: Readers, progress: Progress | None) -> Encoded:
        """Turn examples, or a corpus of them, into numbers; raise InputError if none fits the limits."""

    @abc.abstractmethod
    def batches(
        self, encoded: Any, readers: Readers, tokens_per_batch: int, first_epoch: int | None
    ) -> tf.data.Dataset:
        """Return batches to train on from an epoch on; for None those to validate on, always the same."""

    @property
    def pads_to_buckets(self) -> bool:
        """Whether batches must have few shapes, since each is compiled."""
        return compiles_each_shape() or self.config.training.distribute == "tpu"

    # What it trains.

    @abc.abstractmethod
    def new_model(self, readers: Readers, dtype: keras.DTypePolicy) -> keras.Model:
        """Make a model without training."""

    def model_config(self, readers: Readers, longest: int, **decided: object) -> TransformerConfig:
        """Return the preset, what differs from it, and what the data decide, if memory is large enough."""
        model = self.config.model
        asked, preset = model.changes.get("dropout"), PRESETS[model.preset].dropout
        dropout = choose_dropout(preset, readers) if asked is None else asked
        known: TransformerConfig = model.transformer(longest=longest, dropout=dropout, **decided)
        known.check_memory(bytes_per_weight=12)  # with Adam's two means of the gradients
        return known

    def compile_model(self, model: keras.Model, learning_rate: float | LearningRateSchedule) -> None:
        """Compile a new model."""
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
        )

    @abc.abstractmethod
    def check_model(self, model: keras.Model) -> None:
        """Refuse before the training what could be refused after it."""

    def scoring(self, readers: Readers, examples: Sequence[Any]) -> Any | None:
        """Return the callback that scores validation examples after an epoch; None if the loss is enough."""
        return None

    @abc.abstractmethod
    def make_task(self, model: keras.Model, readers: Readers) -> ModelTask:
        """Make the task of a trained model."""

    # What is said of it.

    @abc.abstractmethod
    def score(
        self,
        task: Any,
        examples: Sequence[Any],
        *,
        batch_size: int | None = None,
        unique: bool = False,
        progress: Progress | None = None,
    ) -> tuple[EvaluationReport, list[Any]]:
        """Score a task, or an export of one, on examples; return its outputs, too."""

    @abc.abstractmethod
    def source(self, example: Any) -> Any:
        """Return what a task is asked for an example, as a value of JSON."""

    def command(self, example: Any, version: str) -> str:
        """Return a command that asks an export for an example, as a shell reads it."""
        # Windows's shell knows double quotes alone; a source is an example, which may lose its own.
        quote = "'" if os.name == "posix" else '"'
        source = str(self.source(example)).strip().replace(quote, "")
        return f"echo {quote}{source}{quote} | keras-transformer {self.verb} --saved-model {version}"

    @abc.abstractmethod
    def lines(self, examples: Sequence[Any], outputs: Sequence[Any]) -> list[str]:
        """Return lines that show outputs in a terminal, the first of which says what the others have."""

    def page(self, results: RunResults) -> dict[str, Any]:
        """Write `pictures`, and return what `template` has besides what every report has."""
        return {}
