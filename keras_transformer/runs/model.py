"""Training of a run: readers, batches, a new or fine-tuned model, and the resulting task."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_transformer._backend.compiler import compiles_each_shape
from keras_transformer.errors import InputError
from keras_transformer.models.config import PRESETS
from keras_transformer.runs.config import RunConfig, _ModelSection
from keras_transformer.runs.directory import _has_checkpoint, write_config
from keras_transformer.runs.kind import Encoded, ProgressBar, Readers, RunData, RunKind
from keras_transformer.runs.recipe import choose_sizes
from keras_transformer.text import Reader, Tokenizer
from keras_transformer.training.checkpoint import Checkpoint
from keras_transformer.training.fit import fit

_LOGGER = logging.getLogger(__name__)
# Options that may differ from the initial model: they change training, not the function of the model.
_TRAINING_OPTIONS = ("dropout", "attention_dropout", "intermediate_dropout", "rematerialize")


def _run_readers(kind: RunKind, directory: Path, data: RunData) -> Readers:
    """Load the readers of a run, make them, or copy those of the initial model."""
    names = kind.task_class.tokenizer_names
    paths = [directory / name for name in names]
    # A killed run may leave half a vocabulary; tokenizer.json is written last.
    if all((path / "tokenizer.json").exists() for path in paths):
        return tuple(Reader.load(path) for path in paths)
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
        _check_vocabulary(kind.config, readers)
    for reader, path in zip(readers, paths, strict=True):
        reader.save(path)
    return readers


class _RunBatches:
    """Encoded examples of a run and their batches. Examples that are too long are dropped and counted."""

    def __init__(
        self, kind: RunKind, data: RunData, readers: Readers, progress: ProgressBar | None = None
    ) -> None:
        self.kind, self.data, self.readers = kind, data, readers
        self.training = self._encode(data.train, "training", progress)
        self.validation = self._encode(data.validation, "validation", progress)
        self.sizes = choose_sizes(
            int(self.training.lengths().max(axis=1).sum()),
            holds=kind.longest,
            gradient_accumulation_steps=kind.config.training.gradient_accumulation_steps,
            **kind.config.chosen,
        )

    def _encode(self, examples: Any, part: str, progress: ProgressBar | None) -> Encoded:
        try:
            return self.kind.encode(examples, self.readers, progress)
        except ValueError as error:
            raise InputError(f"The {part} {self.kind.noun}: {error}") from error

    def training_batches(self, first_epoch: int = 0) -> tf.data.Dataset:
        # Order and noise follow from the epoch, so a resumed run sees the same batches.
        return self.kind.batches(self.training, self.readers, self.sizes.tokens_per_batch, first_epoch)

    def validation_batches(self) -> tf.data.Dataset:
        # Always the same, so that losses are comparable between epochs.
        return self.kind.batches(self.validation, self.readers, self.sizes.tokens_per_batch, None)


class _Trained(NamedTuple):
    """A trained model, with the weights that are kept, and its epochs."""

    model: keras.Model
    checkpoint: Checkpoint
    average_last: int | None
    """Number of epochs whose weights are averaged; None for the best epoch."""


def _train_model(
    data: _RunBatches,
    saved: RunConfig,
    devices: AbstractContextManager[object],
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: str | int = "auto",
) -> _Trained:
    kind, recipe = data.kind, data.kind.config.training
    directory = Path(kind.config.run_directory, kind.config.name)
    keras.utils.set_random_seed(recipe.seed)
    if recipe.deterministic:
        tf.config.experimental.enable_op_determinism()
    with devices:
        checkpoint = Checkpoint(directory)
        batches = data.training_batches(checkpoint.epoch)
        if checkpoint.epoch:
            model = checkpoint.load_model()
            model.jit_compile = compiles_each_shape()  # the run may have started on another backend
        else:
            model = _new_model(data, num_batches=len(batches))
        sizes = len(data.training), len(data.validation), len(batches), model.count_params()
        counts = [f"{size:,}" for size in sizes]
        # Fail now for what would fail after training.
        longest = [each.lengths().max(axis=0) for each in (data.training, data.validation)]
        kind.check_model(model, np.max(longest, axis=0).tolist())
        write_config(directory, saved.completed(data.sizes._asdict()), is_complete=True)
        _LOGGER.info(
            "%s training %s, %s validation %s, %s batches an epoch, %s parameters",
            *(counts[0], kind.noun, counts[1], kind.noun, *counts[2:]),
        )
        checkpoint = fit(
            model,
            batches,
            data.validation_batches(),
            directory=directory,
            epochs=data.sizes.epochs,
            scoring=kind.scoring(data.readers, data.data.validation),
            patience=recipe.patience,
            average_last=recipe.average_last,
            tensorboard=True,
            callbacks=callbacks,
            verbose=verbose,
        )
        average_last = recipe.average_last
        if average_last is None:
            _LOGGER.info("best epoch: %d", checkpoint.best_epoch)
            return _Trained(model, checkpoint, None)
        # The first epochs of a short run are far from its last: averaging 8 of 8 on Multi30k gave 24.6 BLEU.
        wanted, average_last = average_last, min(average_last, (checkpoint.epoch + 1) // 2)
        note = ""
        if average_last < wanted:
            checkpoint.restore_result(model, average_last)
            note = f"; average_last={wanted} is more than half of them"
        _LOGGER.info("averaging the last %d of %d epochs%s", average_last, checkpoint.epoch, note)
        return _Trained(model, checkpoint, average_last)


def _new_model(data: _RunBatches, num_batches: int) -> keras.Model:
    kind, recipe = data.kind, data.kind.config.training
    dtype = keras.DTypePolicy(recipe.precision)
    if kind.config.model.initial_model is not None:
        model = _initial_model(kind, dtype)
    else:
        model = kind.new_model(data.readers, dtype)
    # Gradient accumulation: an incomplete last group of an epoch makes no update.
    num_steps = data.sizes.epochs * (num_batches // recipe.gradient_accumulation_steps)
    schedule = recipe.learning_rate(num_steps, data.sizes.warmup_steps, model.config.hidden_dim)
    kind.compile_model(model, schedule)
    return model


def _initial_model(kind: RunKind, dtype: keras.DTypePolicy) -> keras.Model:
    section, model_class = kind.config.model, kind.model_class
    directory = section.initial_model
    task = kind.task_class.load(directory)
    initial = task.model
    if not isinstance(initial, model_class):
        raise InputError(f"{directory} holds a {type(initial).__name__}, not a {model_class.__name__}.")
    if initial.is_quantized:
        raise InputError(f"{directory} holds a quantized model, which cannot be trained.")
    _check_architecture(section, initial.get_config())
    changes = {name: value for name, value in section.changes.items() if name in _TRAINING_OPTIONS}
    serialized = keras.saving.serialize_keras_object(dtype)
    model = model_class.from_config({**initial.get_config(), **changes, "dtype": serialized})
    model.set_weights(initial.get_weights())
    _LOGGER.info("starting from the weights of %s", directory)
    return kind.adapt_initial(model, task)


def _check_vocabulary(config: RunConfig, readers: Readers) -> None:
    # The vocabularies come with the weights.
    asked, initial = config.vocabulary, config.model.initial_model
    tokenizers = [reader for reader in readers if isinstance(reader, Tokenizer)]
    first, last = tokenizers[:1], tokenizers[-1:]
    # What the tokenizers have of each option; the option must be one of these.
    received: dict[str, list[Any]] = {
        "kind": [tokenizer.kind for tokenizer in first],
        "target_kind": [tokenizer.kind for tokenizer in last],
        # A maximum may be higher than what was reached.
        "size": [max(asked.size or 0, tokenizer.vocabulary_size) for tokenizer in tokenizers],
        "shared": [len({tokenizer.fingerprint() for tokenizer in tokenizers}) < len(tokenizers)],
        **{
            name: [getattr(tokenizer, name, None) for tokenizer in tokenizers]
            for name in ("lowercase", "normalize_spaces", "normalization_rule")
        },
    }
    differing = [
        f"{name}={value!r} where the model has {' and '.join(map(repr, theirs))}"
        for name, theirs in received.items()
        if name in asked.model_fields_set and (value := getattr(asked, name)) not in theirs
    ]
    if differing:
        raise InputError(
            f"The model in {initial} has its own vocabularies. Received: {', '.join(differing)}."
        )


def _check_architecture(section: _ModelSection, config: Mapping[str, object]) -> None:
    # Weights that do not fit would be skipped or stay random. An option of None equals another option.
    same = dict.fromkeys(("num_encoder_layers", "num_decoder_layers"), "num_layers")
    same |= {"num_key_value_heads": "num_heads", "final_norm": "norm_first"}
    given = section.model_dump(exclude_unset=True)
    # A task declares some of the model's options itself, such as the pooling.
    asked = {name: value for name, value in given.items() if name in config}
    if "preset" in given:
        sizes = PRESETS[section.preset].options()
        asked = {name: sizes[name] for name in ("hidden_dim", "num_heads", "intermediate_dim")} | asked
    differing = [
        f"{name}={value!r} where the model has {received!r}"
        for name, value in asked.items()
        if name not in _TRAINING_OPTIONS
        and value != (received := config[name] if config[name] is not None else config[same.get(name, name)])
    ]
    if differing:
        raise InputError(
            f"The model in {section.initial_model} has another architecture; only "
            f"{', '.join(_TRAINING_OPTIONS)} may differ. Received: {', '.join(differing)}."
        )
