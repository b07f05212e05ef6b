"""One process for each run."""

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from keras_transformer.decoding.translator_directory import MODEL_FILE
from keras_transformer.decoding.translator_directory import OPTIONS_FILE as TRANSLATOR_FILE
from keras_transformer.errors import InputError
from keras_transformer.files import write_file
from keras_transformer.runs.config import RunConfig
from keras_transformer.runs.data import RunPairs, initial_tokenizers, train_tokenizers
from keras_transformer.text import Tokenizer, load_tokenizer
from keras_transformer.training import Checkpoint
from keras_transformer.types import Pair

PAIRS_FILE = "pairs.json"


def note_pairs(pairs: RunPairs, directory: Path) -> None:
    """Write down which pairs a run has, or compare them with those that it began with.

    With others, held-out pairs may be among those that were trained on, the place in the data is lost, and
    losses of epochs cannot be compared.

    Args:
        pairs: of the run.
        directory: of the run.

    Raises:
        InputError: the run began with other pairs.
    """
    path = directory / PAIRS_FILE
    received = {"train": _fingerprint(pairs.train), "validation": _fingerprint(pairs.validation)}
    if not path.exists():
        write_file(path, (json.dumps(received, indent=2) + "\n").encode())
        return
    wanted = _read(path)
    changed = [name for name in received if received[name] != wanted.get(name)]
    if changed:
        raise InputError(
            "A run that goes on must have the pairs that it began with. Received: other "
            f"{' and '.join(changed)} pairs than those of {path}. Train on others under another --name, with "
            "--initial-model."
        )


def _read(path: Path) -> dict[str, str]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path} is damaged: {error}. Remove it if the pairs are the same as before."
        ) from error


def _fingerprint(pairs: Sequence[Pair]) -> str:
    """Compute the SHA-256 of the texts, in their order."""
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(json.dumps(pair).encode() + b"\n")
    return digest.hexdigest()


REPORT_FILE = "report.json"


def write_report(directory: Path, results: dict[str, Any], examples: list[str]) -> None:
    """Write the report of a run.

    Args:
        directory: of the run.
        results: scores and whatever else is known.
        examples: some sources of the test data.

    Raises:
        InputError: the file cannot be written.
    """
    report = {**results, "examples": examples}
    write_file(directory / REPORT_FILE, (json.dumps(report, indent=2) + "\n").encode())


def run_examples(directory: Path) -> tuple[str, ...]:
    """Read the examples of a run.

    Args:
        directory: of a model, whether a run made it or not.

    Returns:
        Sources; none where there is no report, or none that can be read.
    """
    try:
        examples = json.loads((directory / REPORT_FILE).read_text(encoding="utf-8"))["examples"]
        return tuple(example for example in examples if isinstance(example, str))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


CONFIG_FILE = "config.json"

OF_A_TRANSLATOR = ("source_tokenizer", "target_tokenizer", MODEL_FILE, TRANSLATOR_FILE)
"""What a run reads again, or writes over at its end."""
WITHOUT_A_CHECKPOINT = (
    CONFIG_FILE,
    PAIRS_FILE,
    "checkpoints",
    "source_tokenizer",
    "target_tokenizer",
    "tensorboard",
    "training.csv",
    "training.png",
)
"""What may be there before the first checkpoint is."""
OF_A_RUN = (
    *WITHOUT_A_CHECKPOINT,
    *OF_A_TRANSLATOR,
    REPORT_FILE,
    "attention.png",
)
"""All that a run writes; the rest of its directory is somebody else's, such as the texts to train on."""


def set_aside(directory: Path) -> None:
    """Set aside what an earlier run has left; the rest stays. Call `settle` later.

    Args:
        directory: of the run, no link.
    """
    directory.rename(_aside(directory))
    _move_others(_aside(directory), directory)


def settle(directory: Path) -> None:
    """Remove what a new run has replaced, or put it back where the new one has saved nothing.

    Args:
        directory: of the run.
    """
    directory = directory.resolve()
    aside = _aside(directory)
    if not aside.exists():
        return
    if (directory / "checkpoints" / "state.json").exists():
        _move_others(aside, directory)  # a process may have been killed before it did
        shutil.rmtree(aside)
        return
    _move_others(directory, aside)
    shutil.rmtree(directory, ignore_errors=True)
    aside.rename(directory)


def _aside(directory: Path) -> Path:
    return directory.with_name(f".replaced-{directory.name}")


def _move_others(origin: Path, target: Path) -> None:
    """Move what no run has written."""
    others = [path for path in origin.iterdir() if path.name not in OF_A_RUN] if origin.exists() else []
    for path in others:
        target.mkdir(exist_ok=True)
        path.rename(target / path.name)


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
    if Checkpoint(directory).epoch:
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
    if all((path / Tokenizer.options_file).exists() for path in paths):
        return load_tokenizer(paths[0]), load_tokenizer(paths[1])
    if Checkpoint(directory).epoch:
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


if os.name == "posix":
    import fcntl


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep the directory of a run for this process; the system frees it if the process is killed.

    Two trainings in one directory would mix vocabularies and weights. Windows and some network file systems
    have no such locks.

    Args:
        directory: of the run; a file beside it is locked, since the directory itself may be replaced.

    Yields:
        nothing.

    Raises:
        InputError: another process has it.
    """
    if os.name != "posix":
        yield
        return
    was_there = directory.parent.exists()
    directory.parent.mkdir(parents=True, exist_ok=True)
    path = directory.with_name(f".{directory.name}.lock")
    with _locked_file(path, directory):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            if not was_there:  # nor left, unless there is something in it now
                with suppress(OSError):
                    directory.parent.rmdir()


def _locked_file(path: Path, directory: Path) -> Any:
    while True:
        file = path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise InputError(
                f"Another process is training {directory}. Wait for it, or choose another --name."
            ) from error
        except OSError:  # the file system has no locks
            return file
        if _is_still(file, path):
            return file
        file.close()  # the process before has removed it between the two calls


def _is_still(file: Any, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
