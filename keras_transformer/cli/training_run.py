"""What `keras-transformer train` does, step by step."""

import logging
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import keras

from keras_transformer.cli.run_aside import settle
from keras_transformer.cli.run_data import RunPairs, encode, load_pairs
from keras_transformer.cli.run_directory import (
    begin_run,
    continue_run,
    resumed_run,
    run_tokenizers,
    saved_run,
)
from keras_transformer.cli.run_fingerprint import note_pairs
from keras_transformer.cli.run_lock import locked
from keras_transformer.cli.run_pictures import draw_pictures
from keras_transformer.cli.run_report import write_report
from keras_transformer.cli.run_training import finish, fit
from keras_transformer.cli.scoring import score
from keras_transformer.config import RunConfig
from keras_transformer.data import Pair
from keras_transformer.decoding import Translator
from keras_transformer.export import export_saved_model
from keras_transformer.training import check_engine, claim_cores

NUM_SAMPLES = 8


def train_run(
    run: RunConfig, *, resume: bool, overwrite: bool, flags: Mapping[str, Any] | None = None
) -> None:
    """Train, score, draw and export.

    Args:
        run: all that decides the outcome.
        resume: go on after the last epoch that was saved.
        overwrite: remove an earlier run of the same name.
        flags: what changes in the configuration of a resumed run; None where `run` has to be it.

    Raises:
        InputError: the data, the configuration or the directory cannot be used.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    directory = Path(run.run_directory, run.name)
    with locked(directory):
        saved = saved_run(directory) if resume else None
        if saved is not None:
            run = resumed_run(saved, run if flags is None else saved.override(flags))
        _train_run(run, directory, saved, overwrite=overwrite)


def _train_run(run: RunConfig, directory: Path, saved: RunConfig | None, *, overwrite: bool) -> None:
    """Do it in a directory that no other process uses."""
    start = time.monotonic()
    if run.training.distribute is not None:
        check_engine(run.training.distribute)
    if run.training.distribute == "cores":
        claim_cores()  # while TensorFlow has not computed anything
    pairs = load_pairs(run.data)
    _show_samples(pairs)
    if saved is None:
        begin_run(run, directory, overwrite=overwrite)
    else:
        note_pairs(pairs, directory)
        continue_run(run, directory, saved)
    try:
        if saved is None:
            note_pairs(pairs, directory)
        tokenizers = run_tokenizers(run, directory, pairs.train)
        training = encode(run, pairs.train, tokenizers)
        validation = encode(run, pairs.validation, tokenizers, part="validation")
        history = fit(run, directory, tokenizers, training, validation, pairs.validation)
    finally:
        settle(directory)
    translator = finish(run, directory, tokenizers)
    decoding = run.decoding
    report = score(translator, pairs.test, batch_size=decoding.batch_size, tokenize=decoding.bleu_tokenize)
    _show_answers(translator, pairs.test)
    pictures = draw_pictures(translator, pairs.test[0], history, directory)
    examples = [source for source, _ in pairs.test[:NUM_SAMPLES]]
    version = _export(translator, run, directory, examples)
    seconds = time.monotonic() - start
    saved_model = None if version is None else str(version)
    results = {**report.to_dict(), "seconds": round(seconds), "saved_model": saved_model}
    write_report(directory, results, examples)
    written = [*pictures, *([] if version is None else [version])]
    click.echo(f"wrote {', '.join(map(str, written))} in {seconds:.0f} s")
    if version is not None:
        _show_next_commands(version, examples[0])


def _export(translator: Translator, run: RunConfig, directory: Path, examples: list[str]) -> Path | None:
    """Export on TensorFlow; on another backend say how it is done."""
    target = Path(run.export_directory, run.name)
    if keras.backend.backend() != "tensorflow":
        click.echo(
            "not exported, which TensorFlow alone can: "
            f"KERAS_BACKEND=tensorflow keras-transformer export {directory} {target}",
            err=True,
        )
        return None
    click.echo("exporting, and asking the export in a process of its own", err=True)
    return export_saved_model(translator, target, examples)


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
    place = shlex.quote(str(version))
    click.echo("next:")
    click.echo(f"  echo {_quoted(example.strip())} | keras-transformer translate --saved-model {place}")
    click.echo(f"  saved_model_cli show --dir {place} --tag_set serve --signature_def serving_default")


def _quoted(text: str) -> str:
    quote = "'" if os.name == "posix" else '"'
    return f"{quote}{text.replace(quote, '')}{quote}"
