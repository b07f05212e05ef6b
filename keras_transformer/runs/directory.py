"""Run directory: lock, configuration, safe replacement and resuming of a run."""

import contextlib
import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path

from keras_transformer._files import (
    Checksums,
    as_json,
    errors_named,
    finish_replacement,
    read_file,
    read_table,
    resolved,
    try_lock,
    write_file,
)
from keras_transformer.errors import InputError
from keras_transformer.runs.config import CHECKSUMS, RunConfig
from keras_transformer.runs.kind import RunKind

CONFIG_FILE = "config.json"
REPORT_FILE, PAGE_FILE = "report.json", "report.html"
CHECKPOINTS = "checkpoints"
_CURVES = ("training.csv", "tensorboard")

# Directories for the run that `overwrite` replaces. `_REPLACED` holds all its files, `_MOVING` those moved
# so far, there or back, while the new run has no files. After a kill the name shows which of the two it is.
_REPLACED, _MOVING = ".replaced", ".replaced.moving"

_LOGGER = logging.getLogger(__name__)


# All other files in the directory, such as training texts, belong to the user and are never touched.
def content(kinds: Iterable[type[RunKind]]) -> tuple[str, ...]:
    """Return the names of all files that runs of these kinds write."""
    return (*_before_a_checkpoint(kinds), *_saved_task(kinds), PAGE_FILE, REPORT_FILE)


def _before_a_checkpoint(kinds: Iterable[type[RunKind]]) -> tuple[str, ...]:
    fingerprints = dict.fromkeys(_fingerprints(kind) for kind in kinds)
    readers = dict.fromkeys(name for kind in kinds for name in kind.task_class.tokenizer_names)
    return (CONFIG_FILE, *fingerprints, CHECKPOINTS, *readers, *_CURVES)


def _fingerprints(kind: type[RunKind]) -> str:
    return f"{kind.noun}.json"


def _saved_task(kinds: Iterable[type[RunKind]]) -> tuple[str, ...]:
    options = dict.fromkeys(kind.task_class.options_file for kind in kinds)
    return ("model.keras", *options, Checksums.file)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the directory for this process. The system releases the lock if the process is killed."""
    # Two trainings in one directory would mix their vocabularies and weights. Windows and some network file
    # systems have no such locks.
    if os.name != "posix":
        yield
        return
    # Resolve links, so that a link to the run uses the same lock.
    real = resolved(directory)
    existed = real.parent.exists()
    try:
        with errors_named("write", directory):
            real.parent.mkdir(parents=True, exist_ok=True)
            # Next to the directory, which may not exist yet, or inside it if the parent is not writable.
            is_next_to = not real.is_dir() or os.access(real.parent, os.W_OK)
            path = real.with_name(f".{real.name}.lock") if is_next_to else real / ".lock"
            file = _locked_file(path, directory)
        with file:
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    finally:
        if not existed:
            with contextlib.suppress(OSError):  # not empty
                real.parent.rmdir()


def _locked_file(path: Path, directory: Path) -> TextIOWrapper:
    while True:
        file = path.open("a")
        if not try_lock(file.fileno()):
            file.close()
            raise InputError(
                f"Another process is training {directory}. Wait for it, or choose another --name."
            )
        # The previous process may have removed the file between both calls; such a lock has no effect.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()


def _saved_config(directory: Path) -> RunConfig:
    path = directory / CONFIG_FILE
    if not path.is_file():
        raise InputError(f"{directory} holds no run: it has no {CONFIG_FILE}.")
    return RunConfig.from_json(read_file(path), origin=str(path))


def write_config(directory: Path, config: RunConfig, *, is_complete: bool = False) -> None:
    """Write `config.json` with its checksum and, if complete, those of the readers and fingerprints."""
    table = config.model_dump()
    checksums = {CONFIG_FILE: Checksums.of_values(table)}
    if is_complete:
        kind = RunKind.kinds[config.task]
        readers = (directory / name for name in kind.task_class.tokenizer_names)
        parts = [directory / _fingerprints(kind), *(path for reader in readers for path in reader.iterdir())]
        checksums |= {path.relative_to(directory).as_posix(): Checksums.of(path) for path in sorted(parts)}
    write_file(directory / CONFIG_FILE, as_json({**table, CHECKSUMS: checksums}))


def _check_unchanged(directory: Path) -> None:
    """Raise InputError if a file that the saved epochs depend on has changed."""
    path = directory / CONFIG_FILE
    table = read_table(read_file(path), path)
    checksums = table.pop(CHECKSUMS, {})  # earlier runs have none
    if not isinstance(checksums, dict):
        raise InputError(f"{path} is damaged: `{CHECKSUMS}` must be a table. Received: {checksums!r:.80}.")
    for name, wanted in checksums.items():
        part = directory / Path(name)
        is_inside = not Path(name).is_absolute() and ".." not in Path(name).parts
        if not is_inside or not part.is_file():
            raise InputError(f"{directory} cannot go on: it has no {name!r} any more. Put it back.")
        received = Checksums.of_values(table) if part == path else Checksums.of(part)
        if received != wanted:
            raise InputError(
                f"{directory} cannot go on: {name} was changed after the run began; put back what it was. "
                f"Options are changed by flags. Received: SHA-256 {received[:16]}…, where {CONFIG_FILE} says "
                f"{wanted!r:.18}…."
            )


@contextlib.contextmanager
def begun(directory: Path, config: RunConfig, *, overwrite: bool) -> Iterator[RunConfig]:
    """Prepare the directory for a new run, and yield the configuration to save."""
    # Restore a run that was set aside before a kill.
    _settle(directory)
    initial = config.model.initial_model
    if initial is not None and Path(initial).resolve() == directory.resolve():
        raise InputError(
            "`initial_model` must be another run than the one that begins; choose another --name. "
            f"Received: initial_model={initial!r}, the directory {directory}."
        )
    _check_replaceable(directory, overwrite=overwrite)
    with errors_named("write", directory):
        directory.mkdir(parents=True, exist_ok=True)
    finish_replacement(directory)
    if overwrite:
        # Keep the old run until the new one has saved a checkpoint: a wrong option may fail late. The final
        # name appears when all files are moved.
        _move(directory, directory / _MOVING)
        if (directory / _MOVING).exists():
            (directory / _MOVING).rename(directory / _REPLACED)
    else:
        _remove(directory)
    write_config(directory, config)
    try:
        yield config
    except BaseException:
        if not any(directory.glob(f"{CHECKPOINTS}/*")):
            _remove(directory)  # nothing to resume
            with contextlib.suppress(OSError):  # not empty
                directory.rmdir()
        raise
    finally:
        _settle(directory)


def _check_replaceable(directory: Path, *, overwrite: bool) -> None:
    kinds = RunKind.kinds.values()
    present = [name for name in content(kinds) if (directory / name).exists()]
    if _has_checkpoint(directory) and not overwrite:
        raise InputError(
            f"{directory} holds a run already. Go on with --resume, start again with --overwrite, "
            "or choose another --name."
        )
    if CONFIG_FILE in present and CHECKPOINTS not in present:
        try:
            _saved_config(directory)
        except InputError as error:
            message = f"{directory / CONFIG_FILE} is not that of a run, and a run would replace it."
            raise InputError(f"{message} Choose another --name.") from error
    # With a config.json and no checkpoint, the rest is from a run that has nothing to keep.
    unsaved = _before_a_checkpoint(kinds) if CONFIG_FILE in present else ()
    kept = [name for name in present if name not in unsaved]
    # Weights without state.json cannot be resumed, but may still be valuable.
    kept += sorted(path.name for path in directory.glob(f"{CHECKPOINTS}/epoch-*"))
    if kept and not overwrite:
        raise InputError(
            f"{directory} holds what a run would read or replace: {', '.join(kept)}. "
            "Choose another --name, or start again with --overwrite."
        )


def _has_checkpoint(directory: Path) -> bool:
    return (directory / CHECKPOINTS / "state.json").exists()


def _settle(directory: Path) -> None:
    """Delete the replaced run if the new one has a checkpoint, else restore it."""
    if (directory / _REPLACED).exists():
        if _has_checkpoint(directory):
            shutil.rmtree(directory / _REPLACED)
            return
        _remove(directory)
        (directory / _REPLACED).rename(directory / _MOVING)
    if (directory / _MOVING).exists():
        _move(directory / _MOVING, directory)
        (directory / _MOVING).rmdir()


def _move(origin: Path, target: Path) -> None:
    for name in content(RunKind.kinds.values()):
        if (origin / name).exists():
            target.mkdir(exist_ok=True)
            (origin / name).rename(target / name)


def _remove(directory: Path) -> None:
    # The configuration last: it identifies the other files as a run's, also after a kill in between.
    for name in reversed(content(RunKind.kinds.values())):
        if (directory / name).is_dir():
            shutil.rmtree(directory / name)
        else:
            (directory / name).unlink(missing_ok=True)


# Options that a resumed run may change (name prefixes): the saved epochs do not depend on them.
_DIRECTORIES = ("name", "run_directory", "export_directory", "cache_directory")
_MAY_CHANGE = (*_DIRECTORIES, "training.epochs", "training.patience")
# These change scores, so they may only change if the monitor is the loss.
_MAY_CHANGE_UNDER_THE_LOSS = ("training.monitored_pairs", "decoding.")


@contextlib.contextmanager
def resumed(directory: Path, config: RunConfig) -> Iterator[RunConfig]:
    """Prepare a run to continue, and yield its configuration; refuse changes that saved epochs forbid."""
    # The caller saves the configuration, after all checks have passed.
    saved = _saved_config(directory)
    _check_unchanged(directory)
    finish_replacement(directory)
    if not _has_checkpoint(directory):
        _check_nothing_is_lost(directory)
    config = config.completed(saved.chosen)
    _check_resumable(saved, config)
    # A cosine schedule is fixed to its number of epochs; fewer epochs apply only to this call.
    if saved.training.schedule == "cosine" and saved.training.epochs is not None:
        config = config.override(epochs=saved.training.epochs)
    try:
        yield config
    finally:
        _settle(directory)


def _check_nothing_is_lost(directory: Path) -> None:
    """Raise InputError if saved epochs have lost their checkpoints; warn if none was saved."""
    names = (_CURVES[0], *_saved_task(RunKind.kinds.values()), REPORT_FILE)
    if left := [name for name in names if (directory / name).exists()]:
        raise InputError(
            f"{directory} cannot go on: it holds {', '.join(left)} of epochs that were saved, and no "
            f"{CHECKPOINTS}/state.json. Copy {CHECKPOINTS} as well, or start again with --overwrite."
        )
    _LOGGER.warning("%s has no checkpoint: the run starts with its first epoch", directory)


def _check_resumable(saved: RunConfig, wanted: RunConfig) -> None:
    is_loss = saved.training.monitor == "loss"
    may_change = _MAY_CHANGE + (_MAY_CHANGE_UNDER_THE_LOSS if is_loss else ())
    before, after = _flat(saved), _flat(wanted)
    changed = [
        f"{name}={after.get(name)!r} after {before.get(name)!r}"
        for name in {**before, **after}
        if after.get(name) != before.get(name) and not name.startswith(may_change)
    ]
    if changed:
        names = f"its epochs, patience and directories{', monitored_pairs and decoding' if is_loss else ''}"
        raise InputError(
            f"A run that goes on may change {names}, nothing else. Received: {', '.join(changed)}."
        )
    epochs = saved.training.epochs
    if saved.training.schedule == "cosine" and (wanted.training.epochs or 0) > (epochs or 0):
        raise InputError(
            f"The cosine schedule of this run ends at learning rate 0 after {epochs} epochs; more of them "
            f"would change nothing. Received: epochs={wanted.training.epochs}. "
            "Start again with --overwrite, or under another --name."
        )


def _flat(config: RunConfig) -> dict[str, object]:
    """Return all values by dotted name, such as `training.epochs`."""
    flat: dict[str, object] = {}
    for name, value in config.model_dump().items():
        inner = value if isinstance(value, dict) else None
        flat |= {name: value} if inner is None else {f"{name}.{key}": item for key, item in inner.items()}
    return flat


def check_data(directory: Path, kind: type[RunKind], **received: str) -> None:
    """Save the fingerprints of the examples; raise InputError if a resumed run has other examples."""
    # With other data, held-out examples may have been trained on, the position in the data is lost, and the
    # losses of epochs are not comparable.
    path = directory / _fingerprints(kind)
    if not path.exists():
        write_file(path, as_json(received))
        return
    try:
        wanted = read_table(read_file(path), path)
    except InputError as error:
        message = f"{path} is damaged: {error}. Remove it if the {kind.noun} are the same as before."
        raise InputError(message) from error
    changed = [part for part in received if received[part] != wanted.get(part)]
    if changed:
        raise InputError(
            f"A run that goes on must have the {kind.noun} that it began with. Received: other "
            f"{' and '.join(changed)} {kind.noun} than those of {path}. Train on others under another "
            "--name, with --initial-model."
        )
