"""Which model a command asks: a directory of `train`, or an export."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_transformer.errors import InputError

Command = Callable[..., Any]


def model_options(command: Command) -> Command:
    """Add the flags that choose a model.

    Args:
        command: takes `model`, `saved_model` and `batch_size`.

    Returns:
        The command with its flags.
    """
    options = (
        click.option("--model", type=click.Path(), help="Directory that train wrote, such as runs/dates."),
        click.option(
            "--saved-model",
            type=click.Path(),
            help="Export, or one version of it. Without --model: the only one in saved_models.",
        ),
        click.option(
            "--batch-size", type=click.IntRange(min=1), default=64, show_default=True, help="Texts at a time."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def open_model(model: str | None, saved_model: str | None) -> Any:
    """Load what is to answer.

    Args:
        model: directory of a trained model, or None.
        saved_model: directory of an export, or None.

    Returns:
        A `Translator` or a `ServedModel`.

    Raises:
        InputError: both are given, or neither and there is no single export, or it cannot be loaded.
    """
    if model is not None and saved_model is not None:
        raise InputError(f"Give --model or --saved-model. Received: {model} and {saved_model}.")
    if model is not None:
        from keras_transformer.decoding import Translator

        return Translator.load(model)
    directory = Path(saved_model) if saved_model is not None else _only_export()

    from keras_transformer.export import ServedModel

    return ServedModel(directory)


def change_search(translator: Any, beam_size: int | None, length_penalty: float | None) -> None:
    """Have a model search for answers in another way than it was saved with.

    Args:
        translator: from `open_model`.
        beam_size: hypotheses, 1 for greedy; None for as many as before.
        length_penalty: the exponent; None for the one before.

    Raises:
        InputError: it is an export, which searches as it was exported; its search draws by chance; or a
            number is out of range.
    """
    if beam_size is None and length_penalty is None:
        return
    search = getattr(translator, "search", None)
    if search is None:
        raise InputError(
            "An export searches as it was exported; name the run with --model to search in another way. "
            f"Received: --beam-size {beam_size}, --length-penalty {length_penalty}."
        )

    try:
        translator.search = _changed(search, beam_size, length_penalty)
    except ValueError as error:
        raise InputError(str(error)) from error


def _changed(search: Any, beam_size: int | None, length_penalty: float | None) -> Any:
    """Return the same search with another beam or length penalty; 1 is greedy search."""
    from keras_transformer.decoding import BeamSearch, GreedySearch, SampleSearch

    if isinstance(search, SampleSearch):
        raise InputError("`search` must be greedy or a beam. Received: SampleSearch.")
    if length_penalty is not None:
        search = dataclasses.replace(search, length_penalty=length_penalty)
    if beam_size is None:
        return search
    shared = {name: getattr(search, name) for name in ("length_penalty", "constraints", "special_ids")}
    if beam_size == 1:
        return GreedySearch(**shared)
    beam = search if isinstance(search, BeamSearch) else BeamSearch(**shared)
    return dataclasses.replace(beam, beam_size=beam_size)


def _only_export() -> Path:
    root = Path("saved_models")
    found = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    if len(found) != 1:
        names = ", ".join(str(path) for path in found) or "none"
        raise InputError(f"Name a model with --model or --saved-model. Found in {root}: {names}.")
    return found[0]
