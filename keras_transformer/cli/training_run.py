"""What `keras-transformer train` does, step by step."""

import logging
import os
import time
from pathlib import Path
from typing import Any

import click
import keras
import tensorflow as tf

from keras_transformer.cli.progress import EpochProgress
from keras_transformer.cli.run_data import RunPairs, batches, encode, load_pairs
from keras_transformer.cli.run_directory import begin_run, run_tokenizers, saved_run
from keras_transformer.cli.run_pictures import draw_pictures
from keras_transformer.cli.run_report import write_report
from keras_transformer.cli.scoring import score
from keras_transformer.config import RunConfig
from keras_transformer.data import EncodedPairs, Pair
from keras_transformer.decoding import Translator, make_search
from keras_transformer.errors import InputError
from keras_transformer.export import export_saved_model
from keras_transformer.models import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.training import (
    Checkpoint,
    CheckpointState,
    StopOnNonFinite,
    compile_model,
    make_schedule,
    read_checkpoint,
)

NUM_SAMPLES = 8


def train_run(run: RunConfig, *, resume: bool, overwrite: bool, epochs: int | None = None) -> None:
    """Train, score, draw and export.

    Args:
        run: all that decides the outcome.
        resume: go on after the last epoch that was saved, with the run's own configuration.
        overwrite: remove an earlier run of the same name.
        epochs: of a resumed run, instead of its own number.

    Raises:
        InputError: the data, the configuration or the directory cannot be used.
    """
    start = time.monotonic()
    directory = Path(run.run_directory, run.name)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    if resume:
        run = saved_run(directory).override({"epochs": epochs})
    pairs = load_pairs(run.data)
    _show_samples(pairs)
    if not resume:
        begin_run(run, directory, overwrite=overwrite)
    tokenizers = run_tokenizers(run, directory, pairs.train)
    encoded = [encode(run, part, tokenizers) for part in (pairs.train, pairs.validation)]
    history = fit(run, directory, tokenizers, *encoded)
    translator = finish(run, directory, tokenizers)
    decoding = run.decoding
    report = score(translator, pairs.test, batch_size=decoding.batch_size, tokenize=decoding.bleu_tokenize)
    _show_answers(translator, pairs.test)
    pictures = draw_pictures(translator, pairs.test[0], history, directory)
    examples = [source for source, _ in pairs.test[:NUM_SAMPLES]]
    click.echo("exporting, and asking the export in a process of its own", err=True)
    version = export_saved_model(translator, Path(run.export_directory, run.name), examples)
    seconds = time.monotonic() - start
    results = {**report.to_dict(), "seconds": round(seconds), "saved_model": str(version)}
    write_report(directory, results, examples)
    click.echo(f"wrote {', '.join(map(str, [*pictures, version]))} in {seconds:.0f} s")
    _show_next_commands(version, examples[0])


def fit(
    run: RunConfig,
    directory: Path,
    tokenizers: tuple[Tokenizer, Tokenizer],
    training: EncodedPairs,
    validation: EncodedPairs,
) -> dict[str, list[float]]:
    """Train the model of a run, from its last checkpoint if there is one.

    Args:
        run: all that decides the outcome.
        directory: of the run.
        tokenizers: of source and target.
        training: pairs to learn from.
        validation: pairs that choose the best epoch.

    Returns:
        Each metric's value after each epoch.

    Raises:
        InputError: no checkpoint is whole, a loss is not finite, or the run was interrupted.
    """
    keras.utils.set_random_seed(run.training.seed)
    if run.training.deterministic:
        tf.config.experimental.enable_op_determinism()
    model, state = read_checkpoint(directory / "checkpoints")
    train_batches = batches(run, training, shuffle=True, first_epoch=state.epoch)
    if model is None:
        model = _new_model(run, tokenizers, len(train_batches))
    click.echo(
        f"{len(training):,} training pairs, {len(validation):,} validation pairs, "
        f"{len(train_batches):,} batches an epoch, {model.count_params():,} parameters"
    )
    checkpoint = Checkpoint(directory / "checkpoints", state=state)
    try:
        model.fit(
            train_batches,
            validation_data=batches(run, validation, shuffle=False),
            epochs=run.training.epochs,
            initial_epoch=state.epoch,
            # The data set shuffles itself; Keras warns unless it is told so.
            shuffle=False,
            verbose=0,
            callbacks=[
                StopOnNonFinite(),
                checkpoint,
                keras.callbacks.TensorBoard(directory / "tensorboard", write_graph=False),
                EpochProgress(),
            ],
        )
    except KeyboardInterrupt as interrupt:
        raise InputError(_interrupted(checkpoint.state, run)) from interrupt
    return checkpoint.state.history


def finish(run: RunConfig, directory: Path, tokenizers: tuple[Tokenizer, Tokenizer]) -> Translator:
    """Make the translator of the best epoch, and save it.

    Args:
        run: its decoding section decides how to search.
        directory: of the run; the translator's files go there.
        tokenizers: of source and target.

    Returns:
        The translator.
    """
    model, state = read_checkpoint(directory / "checkpoints", best=True)
    click.echo(f"best epoch: {state.best_epoch}", err=True)
    translator = Translator(
        model,
        *tokenizers,
        search=make_search(run.decoding.beam_size, run.decoding.length_penalty),
        max_source_length=run.data.max_source_length,
        max_target_length=run.decoding.max_target_length,
    )
    translator.save(directory)
    return translator


def _new_model(run: RunConfig, tokenizers: tuple[Tokenizer, Tokenizer], num_batches: int) -> Transformer:
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    options: dict[str, Any] = {"share_embeddings": run.vocabulary.shared, **run.model.overrides()}
    try:
        model = Transformer.from_preset(
            run.model.preset, *sizes, **options, dtype=keras.DTypePolicy(run.training.precision)
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    schedule = make_schedule(
        run.training.schedule,
        peak_learning_rate=run.training.peak_learning_rate,
        warmup_steps=run.training.warmup_steps,
        num_steps=run.training.epochs * num_batches,
        hidden_dim=model.config["hidden_dim"],
    )
    compile_model(model, schedule, label_smoothing=run.training.label_smoothing)
    return model


def _interrupted(state: CheckpointState, run: RunConfig) -> str:
    if not state.epoch:
        return (
            "Interrupted before the first epoch was saved: nothing to resume, the same command begins anew."
        )
    flags = "" if run.name == "dates" else f" --name {run.name}"
    if run.run_directory != RunConfig().run_directory:
        flags += f" --run-directory {run.run_directory}"
    return (
        f"Interrupted. Epoch {state.epoch} of {run.training.epochs} is saved; "
        f"go on with: keras-transformer train{flags} --resume"
    )


def _show_samples(pairs: RunPairs) -> None:
    click.echo("training pairs, for example:")
    for source, target in pairs.train[:5]:
        click.echo(f"  {source.strip()}  →  {target}")


def _show_answers(translator: Translator, pairs: list[Pair]) -> None:
    click.echo("answers (score, source, answer, and the reference where it differs):")
    pairs = pairs[:NUM_SAMPLES]
    answers = translator.translate_with_scores([source for source, _ in pairs])
    for (source, target), answer in zip(pairs, answers, strict=True):
        wanted = "" if answer.text == target else f"  ({target})"
        click.echo(f"  {answer.score:7.3f}  {source.strip()}  →  {answer.text}{wanted}")


def _show_next_commands(version: Path, example: str) -> None:
    click.echo("next:")
    click.echo(f"  echo {_quoted(example.strip())} | keras-transformer translate --saved-model {version}")
    click.echo(f"  saved_model_cli show --dir {version} --tag_set serve --signature_def serving_default")


def _quoted(text: str) -> str:
    quote = "'" if os.name == "posix" else '"'
    return f"{quote}{text.replace(quote, '')}{quote}"
