"""Shared options for models, searches and files, and checks that need no TensorFlow."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import click

from keras_transformer._files import as_path, errors_named
from keras_transformer.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., object])


class ModelChoice(NamedTuple):
    """An existing model directory, and whether it is an export."""

    path: Path
    is_export: bool


def model_options(command: _Command) -> _Command:
    """Add `--batch-size` and the options of `model_flags`."""
    return model_flags(
        click.option(
            "--batch-size",
            type=click.IntRange(min=1),
            default=64,
            show_default=True,
            help="Number of texts per batch.",
        )(command)
    )


def model_flags(command: _Command) -> _Command:
    """Add `--model` and `--saved-model`, which `choose_model` reads, and `--trust`."""
    # In reverse order: click shows the last added option first.
    text = (
        "Load an export even if it has operations that this package never exports. They could read and "
        "write your files."
    )
    command = click.option("--trust", is_flag=True, help=text)(command)
    text = (
        "Directory of an export, or of one of its versions. Defaults to the export in "
        "the directory saved_models if there is exactly one."
    )
    command = click.option("--saved-model", type=click.Path(), help=text)(command)
    text = "Directory written by train or import, such as runs/dates."
    return click.option("--model", type=click.Path(), help=text)(command)


def choose_model(model: str | None, saved_model: str | None) -> ModelChoice:
    """Return the given model or export, else the only export in `saved_models`.

    Raises InputError if both are given, a directory is missing, or there is no single export.
    """
    if model is not None and saved_model is not None:
        raise InputError(f"Give --model or --saved-model. Received: {model} and {saved_model}.")
    if saved_model is not None:
        return ModelChoice(_directory(saved_model, "SavedModel"), is_export=True)
    if model is not None:
        return ModelChoice(_directory(model, "model"), is_export=False)
    root = Path("saved_models")
    found = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    if len(found) != 1:
        names = ", ".join(str(path) for path in found) or "none"
        raise InputError(f"Name a model with --model or --saved-model. Found in {root}: {names}.")
    return ModelChoice(found[0], is_export=True)


def _directory(name: str, kind: str) -> Path:
    path = as_path(name)
    if not path.is_dir():
        raise InputError(f"{path} is not the directory of a {kind}: there is no such directory.")
    return path


def check_files(*names: str | None) -> None:
    """Raise InputError for missing files, before TensorFlow is imported. Patterns are not checked."""
    for path in (as_path(name) for name in names if name is not None):
        if not set("*?[").intersection(path.name):
            with errors_named("read", path):
                path.stat()


def check_texts(texts: Sequence[str], input_file: str | None, noun: str = "texts") -> None:
    """Raise InputError if both texts and `--input` are given, or the file is missing."""
    if texts and input_file is not None:
        received = f"{len(texts)} {noun} and --input {input_file}"
        raise InputError(f"Give {noun} or --input. Received: {received}.")
    check_files(input_file)


def given_texts(texts: Sequence[str], input_file: str | None) -> list[str]:
    """Return the texts, else the lines of the file, else those of standard input."""
    from keras_transformer.data import read_lines

    # Read bytes: standard input is UTF-8 like files, whatever the encoding of the terminal.
    return [*texts] or read_lines(sys.stdin.buffer if input_file is None else input_file)


def search_options(command: _Command) -> _Command:
    """Add `--beam-size` and `--length-penalty`, which `change_search` reads."""
    text = (
        "Log-probabilities are divided by ((5 + length) / 6) ** this value; higher values favor longer "
        "outputs. Defaults to the model's. Only with --model."
    )
    command = click.option("--length-penalty", type=click.FloatRange(min=0), help=text)(command)
    text = "Beam size; 1 is greedy search. Defaults to the model's. Only with --model."
    return click.option("--beam-size", type=click.IntRange(min=1), help=text)(command)


def check_search(choice: ModelChoice, beam_size: int | None, length_penalty: float | None) -> None:
    """Raise InputError if search options are given for an export."""
    if choice.is_export and (beam_size is not None or length_penalty is not None):
        received = f"--beam-size {beam_size}, --length-penalty {length_penalty}"
        raise InputError(
            "An export has a fixed search: --beam-size and --length-penalty need --model. "
            f"Received: {received}."
        )
