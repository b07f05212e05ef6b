"""Encoded data of a run: readers, which are made once, and batches."""

import logging
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.runs.directory import _has_checkpoint
from keras_transformer.runs.kind import Encoded, Progress, Readers, RunData, RunKind
from keras_transformer.runs.recipe import choose_sizes
from keras_transformer.text import load_reader

_LOGGER = logging.getLogger(__name__)


def _run_readers(kind: RunKind, directory: Path, data: RunData) -> Readers:
    """Load the readers of a run, make them, or copy those of the initial model."""
    names = kind.task_class.tokenizer_names
    paths = [directory / name for name in names]
    # A killed run may leave half a vocabulary; tokenizer.json is written last.
    if all((path / "tokenizer.json").exists() for path in paths):
        return tuple(load_reader(path) for path in paths)
    # Rebuilt readers might assign other ids, which a resumed model would not notice.
    if _has_checkpoint(directory):
        raise InputError(
            f"{directory} holds checkpoints, and no longer {'both ' if len(names) > 1 else ''}"
            f"{' and '.join(names)}, whose numbers they were trained on. Put them back, or start again with "
            "--overwrite."
        )
    if kind.config.model.initial_model is None:
        readers = kind.make_readers(data)
    else:
        readers = kind.initial_readers(kind.task_class.load(kind.config.model.initial_model))
    for reader, path in zip(readers, paths, strict=True):
        reader.save(path)
    return readers


class _RunBatches:
    """Encoded examples of a run and their batches. Examples that are too long are dropped and counted."""

    def __init__(
        self, kind: RunKind, data: RunData, readers: Readers, progress: Progress | None = None
    ) -> None:
        self.kind, self.data, self.readers = kind, data, readers
        self.training = self._encode(data.train if data.corpus is None else data.corpus, "training", progress)
        self.validation = self._encode(data.validation, "validation", progress)
        self.sizes = choose_sizes(
            int(self.training.lengths().max(axis=1).sum()),
            holds=kind.longest,
            gradient_accumulation_steps=kind.config.training.gradient_accumulation_steps,
            **kind.config.chosen,
        )

    def _encode(self, examples: Any, part: str, progress: Progress | None) -> Encoded:
        try:
            return self.kind.encode(examples, self.readers, progress)
        except ValueError as error:
            raise InputError(f"The {part} {self.kind.noun}: {error}") from error

    def training_batches(self, first_epoch: int = 0) -> tf.data.Dataset:
        # Order and noise follow from the epoch, so a resumed run sees the same batches.
        return self._batches(self.training, first_epoch)

    def validation_batches(self) -> tf.data.Dataset:
        # Always the same, so that losses are comparable between epochs.
        return self._batches(self.validation, None)

    def _batches(self, encoded: Encoded, first_epoch: int | None) -> tf.data.Dataset:
        return self.kind.batches(encoded, self.readers, self.sizes.tokens_per_batch, first_epoch)
