"""Reading checkpoints: the newest that is whole."""

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path

import keras

from keras_transformer.errors import InputError
from keras_transformer.files import file_sha256
from keras_transformer.training.checkpoint_state import (
    STATE_BEFORE_FILE,
    STATE_FILE,
    CheckpointState,
    CheckpointWarning,
    model_options,
    optimizer_class,
    read_states,
)
from keras_transformer.training.model_files import epoch_file, load_model, load_weights, saved_epochs
from keras_transformer.training.random_state import set_random_state


def read_checkpoint(
    directory: str | Path, *, best: bool = False
) -> tuple[keras.Model | None, CheckpointState]:
    """Read a checkpoint, to go on with it or to use it.

    Args:
        directory: of a `Checkpoint`.
        best: the best epoch instead of the last.

    Returns:
        The model with its optimizer and its random state, and the state of the run;
        None and a new state where no epoch was saved. Where a file is missing or
        damaged, the checkpoint of one epoch earlier, with a `CheckpointWarning`.

    Raises:
        InputError: no checkpoint is whole, or nothing says which is the last.
    """
    return _first_whole(Path(directory), load_model, best=best)


def restore_checkpoint(model: keras.Model, directory: str | Path, *, best: bool = False) -> CheckpointState:
    """Read a checkpoint into a compiled model, whose class Keras need not know.

    Args:
        model: gets weights, optimizer and random state; untouched where no epoch was saved.
        directory: of a `Checkpoint`.
        best: the best epoch instead of the last.

    Returns:
        As for `read_checkpoint`, the state alone.

    Raises:
        InputError: no checkpoint is whole, or it is of another model or optimizer.
    """

    def read(path: Path) -> keras.Model:
        load_weights(model, path)
        return model

    for state in read_states(Path(directory)):
        _refuse_another_model(model, directory, state)
    return _first_whole(Path(directory), read, best=best)[1]


def _refuse_another_model(model: keras.Model, directory: str | Path, state: CheckpointState) -> None:
    """Refuse what the checkpoints are not of; weights of the same shapes may mean something else."""
    options = model_options(model)
    differing = [
        f"{name}={options[name]!r} after {value!r}"
        for name, value in state.model_options.items()
        if name in options and options[name] != value
    ]
    if differing:
        raise InputError(
            f"{directory} holds checkpoints of another model. Make it as it was, or choose another "
            f"directory. Received: {', '.join(differing)}."
        )
    if model.built and state.num_parameters not in (0, model.count_params()):
        raise InputError(
            f"{directory} holds checkpoints of another model: it must have {state.num_parameters:,} "
            f"parameters. Received: {model.count_params():,} parameters."
        )
    if state.optimizer not in ("", optimizer_class(model)):
        raise InputError(
            f"{directory} holds checkpoints of a run with the optimizer {state.optimizer}. Go on with it, or "
            "choose another directory, where a new run may begin with the weights of this one. "
            f"Received: {optimizer_class(model) or 'no optimizer'}."
        )


def _first_whole(
    directory: Path, read: Callable[[Path], keras.Model], *, best: bool
) -> tuple[keras.Model | None, CheckpointState]:
    """Read the newest checkpoint that can be read."""
    errors: list[InputError] = []
    choices = _choices(directory, best=best)
    if not choices:
        _refuse_lost_state(directory)
    for state, name in choices:
        path = directory / name
        try:
            _check_sha256(path, state)
            model = read(path)
        except InputError as error:
            errors.append(error)
            continue
        # Only of the last epoch is it known.
        if path.name == state.last_file and state.random_state:
            set_random_state(model, state.random_state)
        if errors:
            warnings.warn(f"{errors[0]} {name} is used instead.", CheckpointWarning, stacklevel=3)
        return model, state
    if errors:
        raise errors[0]
    return None, CheckpointState()


def _refuse_lost_state(directory: Path) -> None:
    """Refuse to begin anew over checkpoints; the first may be of a process killed before it was known."""
    paths = saved_epochs(directory)
    if [path.name for path in paths] not in ([], [epoch_file(1)]):
        raise InputError(
            f"{directory} holds {paths[-1].name} but neither {STATE_FILE} nor {STATE_BEFORE_FILE}, which say "
            "where the run stands. Put one of them back, or choose another directory."
        )


def _choices(directory: Path, *, best: bool) -> list[tuple[CheckpointState, str]]:
    """List which checkpoints will do, and where a run stands with each."""
    states = read_states(directory)
    choices = [(state, state.best_file if best else state.last_file) for state in states]
    if best and states:
        newest = states[0]
        last = dataclasses.replace(newest, best_file=newest.last_file, best_epoch=newest.epoch)
        choices.append((last, last.best_file))
    return choices


def _check_sha256(path: Path, state: CheckpointState) -> None:
    wanted = state.sha256.get(path.name)
    if wanted is not None and path.is_file() and (received := file_sha256(path)) != wanted:
        raise InputError(
            f"{path} is damaged: its SHA-256 must be {wanted[:16]}…, as {STATE_FILE} says. "
            f"Received: {received[:16]}…."
        )
