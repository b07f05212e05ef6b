"""Where a run stands, beside its weights: what `state.json` holds."""

import dataclasses
import hashlib
import json
import math
import warnings
from pathlib import Path
from typing import Any

import keras

from keras_transformer.errors import InputError
from keras_transformer.files import write_file
from keras_transformer.training.random_state import RandomState

STATE_FILE = "state.json"
STATE_BEFORE_FILE = "state-before.json"

# The field of the file that guards all others; a run of an earlier version has none.
_CHECKSUM = "checksum"


class CheckpointWarning(UserWarning):
    """A file of a checkpoint is damaged or missing, and an older one takes its place."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointState:
    """What is known of a run besides its weights."""

    epoch: int = 0
    """Epochs that are done."""
    last_file: str = ""
    """The checkpoint of the last epoch."""
    best_file: str = ""
    """The checkpoint of the best epoch."""
    best_epoch: int = 0
    """The best epoch, counted from 1; 0 before the first."""
    best_value: float = math.inf
    """The lowest value so far of what is monitored."""
    monitor: str = ""
    """The metric that `best_value` is of; a run of an earlier version has none."""
    history: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    """Each metric's value after each epoch."""
    sha256: dict[str, str] = dataclasses.field(default_factory=dict)
    """The SHA-256 of each checkpoint; a run of an earlier version has none."""
    random_state: RandomState = dataclasses.field(default_factory=list)
    """What the seed generators stood at after the last epoch; a run of an earlier version has none."""
    backend_random_state: list[int] = dataclasses.field(default_factory=list)
    """What the backend's own generator stood at; only torch has one."""
    num_parameters: int = 0
    """The numbers in the weights of the model; 0 in a run of an earlier version."""
    model_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The model's own sizes and choices; a run of an earlier version has none."""
    optimizer: str = ""
    """The class of the optimizer; a run of an earlier version has none."""


def optimizer_class(model: keras.Model) -> str:
    """Name the class of a model's optimizer, whose variables another class may take for its own.

    Args:
        model: compiled or not.

    Returns:
        Its name, whether it scales the loss or not; empty where there is no optimizer.
    """
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a `LossScaleOptimizer`
    return "" if optimizer is None else type(optimizer).__name__


def model_options(model: keras.Model) -> dict[str, Any]:
    """List what a model was made with, as far as it is numbers, names and switches.

    Args:
        model: any; one that cannot tell, or is made of other layers, has none.

    Returns:
        Each argument's name and value; the name of the model and whether it is frozen do not count.
    """
    try:
        config = model.get_config()
    except NotImplementedError:
        return {}
    return {
        name: value
        for name, value in config.items()
        if name not in ("name", "trainable") and isinstance(value, str | int | float | None)
    }


def read_state(directory: str | Path) -> CheckpointState | None:
    """Read where a run stands.

    Args:
        directory: of a `Checkpoint`.

    Returns:
        The state, or None where no epoch was saved. Where the file is damaged,
        the state of one epoch earlier, with a `CheckpointWarning`.

    Raises:
        InputError: the file is damaged, and so is the one of an epoch earlier, or absent.
    """
    states = read_states(directory)
    return states[0] if states else None


def read_states(directory: str | Path) -> list[CheckpointState]:
    """Read where a run stands, and where it stood one epoch earlier.

    Args:
        directory: of a `Checkpoint`.

    Returns:
        The newest first; none where no epoch was saved. Each that is damaged is left out,
        with a `CheckpointWarning`.

    Raises:
        InputError: a file is damaged, and no other is whole.
    """
    newest, before = Path(directory, STATE_FILE), Path(directory, STATE_BEFORE_FILE)
    if not newest.exists() and not before.exists():
        return []
    # Before the second epoch, and in a run of an earlier version, there is only one.
    read = [_read(path) for path in (newest, before) if path == newest or path.exists()]
    states = [state for state in read if isinstance(state, CheckpointState)]
    errors = [error for error in read if isinstance(error, InputError)]
    if errors and not states:
        raise errors[0]
    for error in errors:
        warnings.warn(f"{error} The other state is used.", CheckpointWarning, stacklevel=3)
    return states


def write_state(directory: Path, state: CheckpointState, before: CheckpointState) -> None:
    """Write where a run stands; the state before stays, to go back to.

    Args:
        directory: of a `Checkpoint`.
        state: the new one.
        before: the one that is there.

    Raises:
        InputError: a file cannot be written; the state is the one before.
    """
    if before.epoch:
        _write(directory / STATE_BEFORE_FILE, before)
    _write(directory / STATE_FILE, state)


def _write(path: Path, state: CheckpointState) -> None:
    values = dataclasses.asdict(state)
    write_file(path, (json.dumps({**values, _CHECKSUM: _checksum(values)}, indent=2) + "\n").encode())


def _read(path: Path) -> CheckpointState | InputError:
    """Give the error back, for the other file may be whole."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        wanted = values.pop(_CHECKSUM, None) if isinstance(values, dict) else None
        if wanted is not None and wanted != (received := _checksum(values)):
            raise ValueError(f"its {_CHECKSUM} must be {wanted!r}. Received: {received!r}.")
        return _checked(CheckpointState(**values))
    except FileNotFoundError:
        return InputError(f"{path} is missing.")
    except (ValueError, TypeError) as error:
        return InputError(f"{path} is damaged: {error}")


def _checksum(values: dict[str, Any]) -> str:
    """Compute the SHA-256 of all values; a number that is read is the number that was written."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _checked(state: CheckpointState) -> CheckpointState:
    """Refuse a state whose values have other types than those of a new one."""
    for name, wanted in vars(CheckpointState()).items():
        received = getattr(state, name)
        if not isinstance(received, type(wanted)):
            raise TypeError(f"{name} must be of type {type(wanted).__name__}. Received: {name}={received!r}.")
    return state
