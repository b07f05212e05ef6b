"""The directory of a run: begun, resumed, and with its vocabularies."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import click

from keras_transformer.cli.initial_model import initial_tokenizers
from keras_transformer.cli.run_aside import (
    CONFIG_FILE,
    OF_A_TRANSLATOR,
    WITHOUT_A_CHECKPOINT,
    set_aside,
    settle,
)
from keras_transformer.cli.run_data import train_tokenizers
from keras_transformer.config import RunConfig
from keras_transformer.data import Pair
from keras_transformer.errors import InputError
from keras_transformer.files import write_file
from keras_transformer.text import Tokenizer, load_tokenizer
from keras_transformer.text.saving import OPTIONS_FILE
from keras_transformer.training import read_state

# Of a run that goes on, by the beginning of its name.
_MAY_CHANGE = (
    "name",
    "run_directory",
    "export_directory",
    "training.epochs",
    "training.patience",
)
_MAY_CHANGE_UNDER_THE_LOSS = ("training.monitored_pairs", "decoding.")


def begin_run(run: RunConfig, directory: Path, *, overwrite: bool) -> None:
    """Make the directory of a new run; call `settle` when it has trained, or failed to.

    Args:
        run: the configuration, which is written there.
        directory: of the run.
        overwrite: whether what a run has left there may go. It is set aside until the new run has saved
            something; files that no run writes stay where they are.

    Raises:
        InputError: something is there that is worth keeping, and nobody said to remove it, or the run would
            begin with the model that it replaces.
    """
    directory = directory.resolve()  # a link to another disk stays one
    settle(directory)
    initial = run.model.initial_model
    if initial is not None and Path(initial).resolve() == directory.resolve():
        raise InputError(
            "`initial_model` must be another run than the one that begins; choose another --name. "
            f"Received: initial_model={initial!r}, the directory {directory}."
        )
    if not overwrite:
        _refuse_to_lose(directory)
    elif (
        _present(directory, CONFIG_FILE) and not _present(directory, "checkpoints") and not _is_run(directory)
    ):
        raise InputError(
            f"{directory / CONFIG_FILE} is of no run, and a run would replace it. Choose another --name."
        )
    if overwrite and _present(directory, CONFIG_FILE, "checkpoints", *OF_A_TRANSLATOR):
        set_aside(directory)
    elif (directory / CONFIG_FILE).exists():
        shutil.rmtree(directory)
    write_file(directory / CONFIG_FILE, run.to_json().encode())


def _present(directory: Path, *names: str) -> list[str]:
    return [name for name in names if (directory / name).exists()]


def _refuse_to_lose(directory: Path) -> None:
    """Refuse a directory that a run has left which saved something, or that is of something else."""
    if read_state(directory / "checkpoints") is not None:
        raise InputError(
            f"{directory} holds a run already. Go on with --resume, begin anew with --overwrite, "
            "or choose another --name."
        )
    if not (directory / CONFIG_FILE).exists():
        if present := _present(directory, *OF_A_TRANSLATOR):
            raise InputError(
                f"{directory} holds what no run has left there, and a run would read or replace: "
                f"{', '.join(present)}. Choose another --name, or begin anew with --overwrite."
            )
        return
    paths = [path for path in directory.iterdir() if path.name not in WITHOUT_A_CHECKPOINT]
    others = sorted(path.name for path in (*paths, *directory.glob("checkpoints/epoch-*")))
    if others or not _is_run(directory):
        raise InputError(
            f"{directory} holds more than a run that saved nothing: {', '.join(others) or CONFIG_FILE}. "
            "Choose another --name, or begin anew with --overwrite."
        )


def _is_run(directory: Path) -> bool:
    try:
        saved_run(directory)
    except InputError:
        return False
    return True


def continue_run(run: RunConfig, directory: Path, saved: RunConfig) -> None:
    """Write the configuration of a run that goes on.

    Args:
        run: from `resumed_run`.
        directory: of the run.
        saved: the configuration so far. If its schedule is a cosine, its epochs stay, which the schedule
            was made for; fewer of them hold for one call.
    """
    if saved.training.schedule == "cosine":
        run = run.override({"epochs": saved.training.epochs})
    write_file(directory / CONFIG_FILE, run.to_json().encode())


def resumed_run(saved: RunConfig, wanted: RunConfig) -> RunConfig:
    """Decide how a run goes on.

    Args:
        saved: the configuration that it began with.
        wanted: the one that is given now.

    Returns:
        The one that is given now.

    Raises:
        InputError: something would change that the saved epochs depend on.
    """
    before, after = (dict(_flat(run)) for run in (saved, wanted))
    changed = [
        f"{name}={after[name]!r} after {before[name]!r}"
        for name in after
        if after[name] != before[name] and not name.startswith(_may_change(saved))
    ]
    if changed:
        names = "its epochs, patience and directories"
        names += ", monitored_pairs and decoding" if saved.training.monitor == "loss" else ""
        raise InputError(
            f"A run that goes on may change {names}, nothing else. Received: {', '.join(changed)}."
        )
    longer = wanted.training.epochs > saved.training.epochs
    if longer and saved.training.schedule == "cosine":
        raise InputError(
            f"The cosine schedule of this run ends at learning rate 0 after {saved.training.epochs} epochs; "
            f"more of them would change nothing. Received: epochs={wanted.training.epochs}. "
            "Begin anew with --overwrite, or under another --name."
        )
    return wanted


def _may_change(saved: RunConfig) -> tuple[str, ...]:
    """List beginnings of names; scores that choose the best epoch have to be comparable."""
    return _MAY_CHANGE if saved.training.monitor != "loss" else (*_MAY_CHANGE, *_MAY_CHANGE_UNDER_THE_LOSS)


def _flat(run: RunConfig) -> Iterator[tuple[str, object]]:
    """Name each value, such as `training.epochs`."""
    for name, value in dataclasses.asdict(run).items():
        if isinstance(value, dict):
            yield from ((f"{name}.{field}", inner) for field, inner in value.items())
        else:
            yield name, value


def saved_run(directory: Path) -> RunConfig:
    """Read the configuration of a run.

    Args:
        directory: of the run.

    Returns:
        The configuration that it began with.

    Raises:
        InputError: there is no run.
    """
    path = directory / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{directory} holds no run to resume: it has no {CONFIG_FILE}.")
    return RunConfig.from_json(path.read_bytes(), origin=str(path))


def run_tokenizers(run: RunConfig, directory: Path, pairs: list[Pair]) -> tuple[Tokenizer, Tokenizer]:
    """Read the vocabularies of a run, or make and save them.

    Args:
        run: its vocabulary section decides, or the model that it begins with.
        directory: of the run.
        pairs: to learn from.

    Returns:
        The tokenizers of source and target.

    Raises:
        InputError: a vocabulary is damaged, there is too little text, or no model to begin with.
    """
    paths = [directory / "source_tokenizer", directory / "target_tokenizer"]
    # A run that was killed may have left half a vocabulary; the file of options is written last.
    if all((path / OPTIONS_FILE).exists() for path in paths):
        return load_tokenizer(paths[0]), load_tokenizer(paths[1])
    if read_state(directory / "checkpoints") is not None:
        raise InputError(
            f"{directory} holds checkpoints, and no longer both source_tokenizer and target_tokenizer, whose "
            "numbers they were trained on. Put them back, or begin anew with --overwrite."
        )
    if run.model.initial_model is None:
        click.echo("making the vocabularies", err=True)
        tokenizers = train_tokenizers(run, pairs)
    else:
        tokenizers = initial_tokenizers(run.model.initial_model)
    for tokenizer, path in zip(tokenizers, paths, strict=True):
        tokenizer.save(path)
    return tokenizers
