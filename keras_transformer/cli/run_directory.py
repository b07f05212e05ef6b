"""The directory of a run: begun, resumed, and with its vocabularies."""

import shutil
from pathlib import Path

import click

from keras_transformer.cli.run_data import train_tokenizers
from keras_transformer.config import RunConfig
from keras_transformer.data import Pair
from keras_transformer.errors import InputError
from keras_transformer.files import write_file
from keras_transformer.text import Tokenizer, load_tokenizer
from keras_transformer.text.saving import OPTIONS_FILE
from keras_transformer.training import read_state

CONFIG_FILE = "config.json"


def begin_run(run: RunConfig, directory: Path, *, overwrite: bool) -> None:
    """Make the directory of a new run.

    Args:
        run: the configuration, which is written there.
        directory: of the run.
        overwrite: whether to remove what is there.

    Raises:
        InputError: a run has saved checkpoints there, and nobody said to remove them.
    """
    if not overwrite and read_state(directory / "checkpoints") is not None:
        raise InputError(
            f"{directory} holds a run already. Go on with --resume, begin anew with --overwrite, "
            "or choose another --name."
        )
    if (directory / CONFIG_FILE).exists():
        # A run that stopped before its first checkpoint has nothing worth keeping.
        shutil.rmtree(directory)
    write_file(directory / CONFIG_FILE, run.to_json().encode())


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
    return RunConfig.from_json(path.read_text(encoding="utf-8"), origin=str(path))


def run_tokenizers(run: RunConfig, directory: Path, pairs: list[Pair]) -> tuple[Tokenizer, Tokenizer]:
    """Read the vocabularies of a run, or make and save them.

    Args:
        run: its vocabulary section decides.
        directory: of the run.
        pairs: to learn from.

    Returns:
        The tokenizers of source and target.

    Raises:
        InputError: a vocabulary is damaged, or there is too little text.
    """
    paths = [directory / "source_tokenizer", directory / "target_tokenizer"]
    # A run that was killed may have left half a vocabulary; the file of options is written last.
    if all((path / OPTIONS_FILE).exists() for path in paths):
        return load_tokenizer(paths[0]), load_tokenizer(paths[1])
    click.echo("making the vocabularies", err=True)
    tokenizers = train_tokenizers(run, pairs)
    for tokenizer, path in zip(tokenizers, paths, strict=True):
        tokenizer.save(path)
    return tokenizers
