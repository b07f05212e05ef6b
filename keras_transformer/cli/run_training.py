"""The training of a run, and the translator that comes of it."""

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import keras
import tensorflow as tf

from keras_transformer.cli.initial_model import initial_transformer
from keras_transformer.cli.progress import EpochProgress
from keras_transformer.cli.run_data import batches, noise
from keras_transformer.config import RunConfig
from keras_transformer.data import EncodedPairs, Pair, weigh_for_accumulation
from keras_transformer.decoding import Translator, make_search
from keras_transformer.errors import InputError
from keras_transformer.evaluation import DecodeAndScore
from keras_transformer.models import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.training import (
    CheckpointState,
    compile_model,
    distributed,
    jit_compiles,
    make_schedule,
    read_checkpoint,
    read_state,
    trained_model,
)
from keras_transformer.training import fit as fit_model

Tokenizers = tuple[Tokenizer, Tokenizer]


def fit(
    run: RunConfig,
    directory: Path,
    tokenizers: Tokenizers,
    training: EncodedPairs,
    validation: EncodedPairs,
    validation_pairs: Sequence[Pair],
) -> dict[str, list[float]]:
    """Train the model of a run, from its last checkpoint if there is one.

    Args:
        run: all that decides the outcome.
        directory: of the run.
        tokenizers: of source and target.
        training: pairs to learn from.
        validation: pairs that choose the best epoch.
        validation_pairs: the same as texts, to be decoded where a score chooses.

    Returns:
        Each metric's value after each epoch.

    Raises:
        InputError: no checkpoint is whole, a loss is not finite, the run was interrupted, or it wants the
            devices of another backend.
    """
    keras.utils.set_random_seed(run.training.seed)
    if run.training.deterministic:
        tf.config.experimental.enable_op_determinism()
    with distributed(run.training.distribute) if run.training.distribute else nullcontext():
        return _fit(run, directory, tokenizers, training, validation, validation_pairs).history


def _fit(
    run: RunConfig,
    directory: Path,
    tokenizers: Tokenizers,
    training: EncodedPairs,
    validation: EncodedPairs,
    validation_pairs: Sequence[Pair],
) -> CheckpointState:
    """Train on the devices that are chosen."""
    model, state = read_checkpoint(directory / "checkpoints")
    changes = noise(run, tokenizers)
    train_batches = batches(run, training, shuffle=True, first_epoch=state.epoch, noise=changes)
    train_batches = _weighed(train_batches, run.training.gradient_accumulation_steps)
    if model is None:
        model = _new_model(run, tokenizers, len(train_batches))
    model.jit_compile = jit_compiles()  # also where the run was begun on another backend
    click.echo(
        f"{len(training):,} training pairs, {len(validation):,} validation pairs, "
        f"{len(train_batches):,} batches an epoch, {model.count_params():,} parameters"
    )
    try:
        return fit_model(
            model,
            train_batches,
            batches(run, validation, shuffle=False),
            directory=directory,
            epochs=run.training.epochs,
            scoring=_scoring(run, tokenizers, validation_pairs),
            patience=run.training.patience,
            average_last=run.training.average_last,
            tensorboard=True,
            callbacks=[EpochProgress()],
            verbose=0,
        )
    except KeyboardInterrupt as interrupt:
        raise InputError(_interrupted(read_state(directory / "checkpoints"), run)) from interrupt


def finish(run: RunConfig, directory: Path, tokenizers: Tokenizers) -> Translator:
    """Make the translator of the best epoch, or of the mean of the last, and save it.

    It answers in float32, also where the training was in mixed precision.

    Args:
        run: its decoding section decides how to search.
        directory: of the run; the translator's files go there.
        tokenizers: of source and target.

    Returns:
        The translator.
    """
    average_last, state = run.training.average_last, read_state(directory / "checkpoints")
    if average_last is not None:
        click.echo(f"the mean of the last {average_last} epochs", err=True)
    elif state is not None:
        click.echo(f"best epoch: {state.best_epoch}", err=True)
    model = trained_model(directory, average_last=average_last).with_dtype("float32")
    translator = _translator(run, tokenizers, model)
    translator.save(directory)
    return translator


def _weighed(dataset: tf.data.Dataset, num_batches: int) -> tf.data.Dataset:
    """Weigh the batches of an update, if it has several."""
    if num_batches == 1:
        return dataset
    if len(dataset) < num_batches:
        raise InputError(
            "`gradient_accumulation_steps` must not be above the number of batches. Received: "
            f"gradient_accumulation_steps={num_batches}, {len(dataset)} batches an epoch."
        )
    return dataset.apply(weigh_for_accumulation(num_batches))


def _translator(run: RunConfig, tokenizers: Tokenizers, model: keras.Model) -> Translator:
    return Translator(
        model,
        *tokenizers,
        search=make_search(run.decoding.beam_size, run.decoding.length_penalty),
        max_source_length=run.data.max_source_length,
        max_target_length=run.decoding.max_target_length,
    )


def _scoring(run: RunConfig, tokenizers: Tokenizers, pairs: Sequence[Pair]) -> DecodeAndScore | None:
    if run.training.monitor == "loss":
        return None
    return DecodeAndScore(
        lambda model: _translator(run, tokenizers, model),
        pairs,
        run.training.monitor,
        limit=run.training.monitored_pairs,
        batch_size=run.decoding.batch_size,
        tokenize=run.decoding.bleu_tokenize,
    )


def _new_model(run: RunConfig, tokenizers: Tokenizers, num_batches: int) -> Transformer:
    initial = run.model.initial_model
    model = _untrained_model(run, tokenizers) if initial is None else initial_transformer(initial, run)
    schedule = make_schedule(
        run.training.schedule,
        peak_learning_rate=run.training.peak_learning_rate,
        warmup_steps=run.training.warmup_steps,
        num_steps=run.training.epochs * num_batches // run.training.gradient_accumulation_steps,
        hidden_dim=model.config["hidden_dim"],
    )
    compile_model(
        model,
        schedule,
        label_smoothing=run.training.label_smoothing,
        clip_norm=run.training.clip_norm,
        ema_momentum=run.training.ema_momentum,
        gradient_accumulation_steps=run.training.gradient_accumulation_steps,
        r_drop=run.training.r_drop,
        z_loss=run.training.z_loss,
    )
    return model


def _untrained_model(run: RunConfig, tokenizers: Tokenizers) -> Transformer:
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    options: dict[str, Any] = {"share_embeddings": run.vocabulary.shared, **run.model.overrides()}
    options["packed"] = run.data.packed_length is not None
    if options["share_embeddings"] and tokenizers[0].fingerprint() != tokenizers[1].fingerprint():
        raise InputError(
            "`share_embeddings` needs one vocabulary for both sides. Received: share_embeddings=True, and "
            f"vocabularies of {sizes[0]:,} and {sizes[1]:,} entries."
        )
    try:
        return Transformer.from_preset(
            run.model.preset, *sizes, **options, dtype=keras.DTypePolicy(run.training.precision)
        )
    except ValueError as error:
        raise InputError(str(error)) from error


def _interrupted(state: CheckpointState | None, run: RunConfig) -> str:
    if state is None:
        return (
            "Interrupted before the first epoch was saved: nothing to resume, the same command begins anew."
        )
    flags = "" if run.name == "dates" else f" --name {shlex.quote(run.name)}"
    if run.run_directory != RunConfig().run_directory:
        flags += f" --run-directory {shlex.quote(run.run_directory)}"
    return (
        f"Interrupted. Epoch {state.epoch} of {run.training.epochs} is saved; "
        f"go on with: keras-transformer train{flags} --resume"
    )
