"""Where a run stands, beside its weights: what `state.json` holds."""

import dataclasses
import hashlib
import json
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.files import atomic_file, write_file
from keras_transformer.models import Transformer

_EPOCH = re.compile(r"epoch-(\d{4,})\.keras")


def epoch_file(epoch: int) -> str:
    """Name the checkpoint of an epoch, counted from 1."""
    return f"epoch-{epoch:04d}.keras"


def saved_epochs(directory: Path) -> list[Path]:
    """List the checkpoints of a directory, the oldest first, and no other files of like names.

    Args:
        directory: of a `Checkpoint`, or what `KeepRecent` keeps.

    Returns:
        Paths.
    """
    paths = [path for path in directory.glob("epoch-*.keras") if _EPOCH.fullmatch(path.name)]
    return sorted(paths, key=lambda path: int(path.stem.removeprefix("epoch-")))


def save_model(model: keras.Model, path: Path) -> None:
    """Write a `.keras` file beside and rename it.

    Args:
        model: to be saved.
        path: of the file.

    Raises:
        OSError: the file cannot be written; nothing is left of it.
    """
    with atomic_file(path) as partial:
        model.save(partial)


def load_model(path: Path) -> keras.Model:
    """Read a `.keras` file.

    Args:
        path: of the file.

    Returns:
        The model, compiled as it was.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        return keras.saving.load_model(path, custom_objects={"Transformer": Transformer})
    # Keras raises errors of many classes for a damaged archive.
    except Exception as error:
        cause = textwrap.shorten(str(error), 200)
        raise InputError(f"{path} cannot be read as a Keras model: {cause}") from error


def load_weights(model: keras.Model, path: Path) -> None:
    """Read weights and optimizer into a compiled model, whose class Keras need not know.

    Args:
        model: of the same shapes.
        path: of a `.keras` file.

    Raises:
        InputError: the file is missing, damaged, or of another model or of an optimizer with other variables.
    """
    try:
        # Keras's `LossScaleOptimizer` would make its variables a second time.
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        with warnings.catch_warnings():
            # Keras only warns, and leaves the optimizer as if it had never trained.
            warnings.filterwarnings("error", message="Skipping variable loading for optimizer")
            model.load_weights(path)
    # Keras raises errors of many classes for a damaged archive.
    except Exception as error:
        cause = textwrap.shorten(str(error), 200)
        raise InputError(f"{path} cannot be read into the model: {cause}") from error


# Keras names the variable of each `SeedGenerator` so.
_VARIABLE = "seed_generator_state"

RandomState = list[list[int]]


def random_state(model: keras.Model) -> RandomState:
    """Read what the model's seed generators stand at.

    Args:
        model: any Keras model.

    Returns:
        Two numbers for each generator, in the order of `model.variables`.
    """
    return [keras.ops.convert_to_numpy(variable).tolist() for variable in _variables(model)]


def set_random_state(model: keras.Model, state: RandomState) -> None:
    """Let a model draw what another one, of the same shape, would have drawn.

    Args:
        model: any Keras model.
        state: of `random_state`.

    Raises:
        InputError: the model has another number of seed generators, or a state is not two whole numbers.
    """
    variables = _variables(model)
    if len(variables) != len(state):
        raise InputError(
            f"The random state must be of the model's {len(variables)} seed generators. "
            f"Received: the states of {len(state)}."
        )
    checked = [_checked(value, variable) for variable, value in zip(variables, state, strict=True)]
    for variable, numbers in zip(variables, checked, strict=True):
        variable.assign(numbers)


def backend_random_state() -> list[int]:
    """Read what the backend's own generator stands at.

    Keras leaves dropout without a seed to torch, which draws from one generator for the whole process.

    Returns:
        Of torch, the generator of the CPU, as whole numbers of 64 bits; of the other backends,
        which have none, nothing.
    """
    if keras.backend.backend() != "torch":
        return []
    import torch

    return [int(number) for number in torch.get_rng_state().numpy().view("int64")]


def set_backend_random_state(state: list[int]) -> None:
    """Let the backend's own generator draw what it would have drawn.

    Args:
        state: of `backend_random_state`; if empty, or not on torch, the generator stays as it is.

    Raises:
        InputError: torch does not take the state.
    """
    if keras.backend.backend() != "torch" or not state:
        return
    import torch

    try:
        torch.set_rng_state(torch.from_numpy(np.array(state, "int64").view("uint8")))
    except (RuntimeError, ValueError, TypeError, OverflowError) as error:
        received = textwrap.shorten(str(state), 60)
        raise InputError(
            f"The random state must be of torch's generator. Received: {received}: {error}."
        ) from error


def _checked(value: Any, variable: keras.Variable) -> Sequence[int]:
    """Refuse what is not the state of a seed generator: a seed, and a count of draws."""
    numbers = value if isinstance(value, list) else []
    limits = np.iinfo(variable.dtype)
    if len(numbers) != 2 or not all(type(n) is int and limits.min <= n <= limits.max for n in numbers):
        raise InputError(
            f"The state of a seed generator must be two whole numbers of {limits.bits} bits. "
            f"Received: {value!r}."
        )
    return numbers


def _variables(model: keras.Model) -> list[Any]:
    return [variable for variable in model.variables if variable.name == _VARIABLE]


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
        return _checked_checkpoint_state(CheckpointState(**values))
    except FileNotFoundError:
        return InputError(f"{path} is missing.")
    except (ValueError, TypeError) as error:
        return InputError(f"{path} is damaged: {error}")


def _checksum(values: dict[str, Any]) -> str:
    """Compute the SHA-256 of all values; a number that is read is the number that was written."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _checked_checkpoint_state(state: CheckpointState) -> CheckpointState:
    """Refuse a state whose values have other types than those of a new one."""
    for name, wanted in vars(CheckpointState()).items():
        received = getattr(state, name)
        if not isinstance(received, type(wanted)):
            raise TypeError(f"{name} must be of type {type(wanted).__name__}. Received: {name}={received!r}.")
    return state
