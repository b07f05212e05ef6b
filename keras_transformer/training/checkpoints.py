"""Checkpoints of the last and the best epoch: never half written, and resumed from."""

import dataclasses
import math
import warnings
from pathlib import Path
from typing import Any

import keras

from keras_transformer.errors import InputError
from keras_transformer.files import file_sha256
from keras_transformer.training.checkpoint_state import (
    CheckpointState,
    CheckpointWarning,
    model_options,
    optimizer_class,
    read_states,
    write_state,
)
from keras_transformer.training.model_files import (
    PARTIAL,
    epoch_file,
    save_model,
    saved_epochs,
)
from keras_transformer.training.random_state import (
    backend_random_state,
    random_state,
    set_backend_random_state,
)


class Checkpoint(keras.callbacks.Callback):
    """Saves the model after each epoch, optimizer and random state included.

    The files in the directory are `epoch-{n}.keras` of the last two epochs and of the
    best one; `state.json`, which says which is which and has their SHA-256; and
    `state-before.json`, the same of one epoch earlier. A checkpoint is written beside,
    brought to the disk and renamed, then the state likewise, and only then are older
    files removed: whatever stops the process, the directory holds a whole checkpoint,
    and whatever damages the newest one, there is the one before.

    Args:
        directory: where the files go; made if absent.
        monitor: the metric whose lowest value is the best.
        state: where a resumed run stands; from `read_checkpoint`. If its best epoch is that of another
            metric, the best is looked for anew, with a `CheckpointWarning`. `CheckpointState()` begins anew
            where another run has saved something.

    Raises:
        InputError: there is no `state`, and another run has saved something in the directory.
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
        if state is None and read_states(self.directory):
            raise InputError(
                f"{directory} holds the checkpoints of another run. Go on with it by "
                "`state=read_checkpoint(directory)[1]`, begin anew by `state=CheckpointState()`, "
                "or choose another directory."
            )
        self.state = _of_monitor(state or CheckpointState(), monitor)
        self.directory.mkdir(parents=True, exist_ok=True)

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Let torch's generator, which is one for the whole process, go on where the saved run stood."""
        set_backend_random_state(self.state.backend_random_state)

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Refuse to train an epoch that is saved already.

        Args:
            epoch: counted from 0.
            logs: not read.

        Raises:
            InputError: its checkpoint would take the place of that of another epoch.
        """
        if epoch < self.state.epoch:
            raise InputError(
                f"{self.directory} has {self.state.epoch} epochs already. Go on by "
                "`initial_epoch=checkpoint.state.epoch` of `model.fit`, where `epochs` counts all of them. "
                f"Received: epoch {epoch + 1}."
            )

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
            is_of_validation = self.monitor.startswith("val_")
            hint = " The validation had no batch, or is not in each epoch." if is_of_validation else ""
            raise ValueError(
                f"`monitor` must be one of {', '.join(logs)}. Received: monitor={self.monitor!r}.{hint}"
            )
        path = self.directory / epoch_file(epoch + 1)
        save_model(self.model, path)
        before, self.state = self.state, self._next_state(path, epoch + 1, logs)
        try:
            write_state(self.directory, self.state, before)
        except InputError:
            self.state = before
            raise
        self._remove_all_but(self.state, before)

    def _next_state(self, path: Path, epoch: int, logs: dict[str, float]) -> CheckpointState:
        is_best = logs[self.monitor] < self.state.best_value
        best_file = path.name if is_best else self.state.best_file
        known = {**self.state.sha256, path.name: file_sha256(path)}
        return CheckpointState(
            epoch=epoch,
            last_file=path.name,
            best_file=best_file,
            best_epoch=epoch if is_best else self.state.best_epoch,
            # Not `min`: what is no number would stay the best for ever.
            best_value=logs[self.monitor] if is_best else self.state.best_value,
            monitor=self.monitor,
            history=_extended(self.state.history, logs),
            sha256={name: known[name] for name in (path.name, best_file) if name in known},
            random_state=random_state(self.model),
            backend_random_state=backend_random_state(),
            num_parameters=self.model.count_params(),
            model_options=model_options(self.model),
            optimizer=optimizer_class(self.model),
        )

    def _remove_all_but(self, *states: CheckpointState) -> None:
        kept = {name for state in states for name in (state.last_file, state.best_file)}
        for path in saved_epochs(self.directory):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        # A process that was killed leaves what it was writing.
        for pattern in (f"{PARTIAL}epoch-*.keras", ".state*.tmp"):
            for path in self.directory.glob(pattern):
                path.unlink(missing_ok=True)


def _of_monitor(state: CheckpointState, monitor: str) -> CheckpointState:
    """Forget which epoch was the best by another metric: its value cannot be compared."""
    if state.monitor in ("", monitor):
        return state
    warnings.warn(
        f"The best epoch so far was chosen by {state.monitor}, and from now on by {monitor}: "
        f"epochs before epoch {state.epoch} are not compared.",
        CheckpointWarning,
        stacklevel=3,
    )
    return dataclasses.replace(
        state, monitor=monitor, best_value=math.inf, best_epoch=state.epoch, best_file=state.last_file
    )


def _extended(history: dict[str, list[float]], logs: dict[str, Any]) -> dict[str, list[float]]:
    """Add an epoch; NaN stands for what was not measured in one."""
    num_epochs = max(map(len, history.values()), default=0)

    def values(name: str) -> list[float]:
        earlier = history.get(name, [])
        return [*[math.nan] * (num_epochs - len(earlier)), *earlier, logs.get(name, math.nan)]

    return {name: values(name) for name in dict.fromkeys((*logs, *history))}
