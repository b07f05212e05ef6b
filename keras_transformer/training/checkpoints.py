"""Checkpoints of the last and the best epoch: never half written, and resumed from."""

import contextlib
import dataclasses
import json
import math
import textwrap
from pathlib import Path
from typing import Any

import keras

from keras_transformer.errors import InputError
from keras_transformer.files import write_file
from keras_transformer.models import Transformer

STATE_FILE = "state.json"


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
    history: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    """Each metric's value after each epoch."""


class Checkpoint(keras.callbacks.Callback):
    """Saves the model after each epoch, optimizer included.

    The files in the directory are `epoch-{n}.keras` of the last and of the best
    epoch, and `state.json`, which says which is which. A checkpoint is written
    beside and renamed, then the state likewise, and only then are older files
    removed: whatever stops the process, the directory holds a whole checkpoint.

    Args:
        directory: where the files go; made if absent.
        monitor: the metric whose lowest value is the best.
        state: where a resumed run stands; from `read_state`.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        monitor: str = "val_loss",
        state: CheckpointState | None = None,
    ) -> None:
        super().__init__()
        self.directory = Path(directory)
        self.monitor = monitor
        self.state = state or CheckpointState()
        self.directory.mkdir(parents=True, exist_ok=True)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Save the epoch.

        Args:
            epoch: counted from 0.
            logs: each metric's value.

        Raises:
            ValueError: the monitored metric is not among them.
        """
        logs = {name: float(value) for name, value in (logs or {}).items()}
        if self.monitor not in logs:
            raise ValueError(
                f"`monitor` must be one of {', '.join(logs)}. Received: monitor={self.monitor!r}."
            )
        name = f"epoch-{epoch + 1:04d}.keras"
        save_model(self.model, self.directory / name)
        is_best = logs[self.monitor] < self.state.best_value
        self.state = CheckpointState(
            epoch=epoch + 1,
            last_file=name,
            best_file=name if is_best else self.state.best_file,
            best_epoch=epoch + 1 if is_best else self.state.best_epoch,
            # Not `min`: what is no number would stay the best for ever.
            best_value=logs[self.monitor] if is_best else self.state.best_value,
            history=_extended(self.state.history, logs),
        )
        state = json.dumps(dataclasses.asdict(self.state), indent=2) + "\n"
        write_file(self.directory / STATE_FILE, state.encode())
        self._remove_older()

    def _remove_older(self) -> None:
        for path in self.directory.glob("epoch-*.keras"):
            if path.name not in (self.state.last_file, self.state.best_file):
                path.unlink()


def save_model(model: keras.Model, path: Path) -> None:
    """Write a `.keras` file beside and rename it.

    Args:
        model: to be saved.
        path: of the file.

    Raises:
        OSError: the file cannot be written; nothing is left of it.
    """
    # Keras wants the suffix `.keras`, and the name must tell that the file is not whole.
    partial = path.with_name(f".partial-{path.name}")
    try:
        model.save(partial)
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


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


def read_checkpoint(
    directory: str | Path, *, best: bool = False
) -> tuple[keras.Model | None, CheckpointState]:
    """Read a checkpoint, to go on with it or to use it.

    Args:
        directory: of a `Checkpoint`.
        best: the best epoch instead of the last.

    Returns:
        The model with its optimizer, and the state; None and a new state
        where no epoch was saved.

    Raises:
        InputError: a file is missing or damaged.
    """
    state = read_state(directory)
    if state is None:
        return None, CheckpointState()
    return load_model(Path(directory) / (state.best_file if best else state.last_file)), state


def read_state(directory: str | Path) -> CheckpointState | None:
    """Read where a run stands.

    Args:
        directory: of a `Checkpoint`.

    Returns:
        The state, or None where no epoch was saved.

    Raises:
        InputError: the file is damaged.
    """
    path = Path(directory) / STATE_FILE
    if not path.exists():
        return None
    try:
        return _checked(CheckpointState(**json.loads(path.read_text(encoding="utf-8"))))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged: {error}") from error


def _checked(state: CheckpointState) -> CheckpointState:
    """Refuse a state whose values have other types than those of a new one."""
    for name, wanted in vars(CheckpointState()).items():
        received = getattr(state, name)
        if not isinstance(received, type(wanted)):
            raise TypeError(f"{name} must be of type {type(wanted).__name__}. Received: {name}={received!r}.")
    return state


def _extended(history: dict[str, list[float]], logs: dict[str, Any]) -> dict[str, list[float]]:
    return {name: [*history.get(name, []), value] for name, value in logs.items()}
