"""Checkpoints of the last and the best epoch: never half written, and resumed from."""

import csv
import dataclasses
import io
import math
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_transformer.arguments import check_positive
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_file, file_sha256, remove_partials, write_file
from keras_transformer.training.checkpoint_reading import average_weights
from keras_transformer.training.checkpoint_state import (
    CheckpointState,
    CheckpointWarning,
    backend_random_state,
    epoch_file,
    load_model,
    load_weights,
    model_options,
    optimizer_class,
    random_state,
    read_states,
    save_model,
    saved_epochs,
    set_backend_random_state,
    write_state,
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
        remove_partials(self.directory, seconds=0)


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


class StopEarly(keras.callbacks.Callback):
    """Stops a run when its best checkpoint is some epochs old.

    `keras.callbacks.EarlyStopping` counts in one process, and so begins to count anew when a run is
    resumed. This one asks the `Checkpoint`, which remembers. Put it after that.

    Args:
        checkpoint: what knows the best epoch.
        patience: how many epochs in a row may be no better.

    Raises:
        TypeError: `patience` is no integer.
        ValueError: `patience` is not above zero.
    """

    def __init__(self, checkpoint: Checkpoint, patience: int) -> None:
        super().__init__()
        check_positive(patience=patience)
        self.checkpoint = checkpoint
        self.patience = patience

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Stop if it is time.

        Args:
            epoch: counted from 0.
            logs: each metric's value.
        """
        if is_over(self.checkpoint.state, self.patience):
            self.model.stop_training = True


def is_over(state: CheckpointState, patience: int | None) -> bool:
    """Say whether a run has been no better for too long.

    Args:
        state: where it stands.
        patience: how many epochs in a row may be no better; None for any number.

    Returns:
        Whether to stop.
    """
    return patience is not None and state.epoch - state.best_epoch >= patience


TABLE, PICTURE = "training.csv", "training.png"


class RunRecord(keras.callbacks.Callback):
    """Writes `training.csv` and draws `training.png` after each epoch, from the first epoch of a run.

    Both come from the history that the `Checkpoint` keeps, so that a resumed run has one table and one
    picture, without a row twice. Put it after the `Checkpoint`.

    Args:
        checkpoint: what knows the history.
        directory: where both files go.
    """

    def __init__(self, checkpoint: Checkpoint, directory: str | Path) -> None:
        super().__init__()
        self.checkpoint = checkpoint
        self.directory = Path(directory)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Write what a run that was stopped before it was written has saved."""
        if self.checkpoint.state.epoch:
            self._write()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write both.

        Args:
            epoch: counted from 0.
            logs: each metric's value.
        """
        self._write()

    def _write(self) -> None:
        from keras_transformer.visualization import plot_training

        history = _filled(self.checkpoint.state.history)
        write_file(self.directory / TABLE, _table(history).encode())
        plot_training(history, path=self.directory / PICTURE)


def _filled(history: dict[str, list[float]]) -> dict[str, list[float]]:
    """Give each metric a value for each epoch: what a resumed run has more is of its last epochs."""
    num_epochs = max(map(len, history.values()))
    return {name: [*[math.nan] * (num_epochs - len(values)), *values] for name, values in history.items()}


def _table(history: dict[str, list[float]]) -> str:
    """Write a row for each epoch; what an epoch did not measure is empty."""
    columns = {
        name: ["" if math.isnan(value) else repr(value) for value in values]
        for name, values in history.items()
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["epoch", *columns])
    writer.writerows(
        (number, *row) for number, row in enumerate(zip(*columns.values(), strict=True), start=1)
    )
    return text.getvalue()


FOLDER = "recent"


class KeepRecent(keras.callbacks.Callback):
    """Keeps the checkpoints of the last epochs, which `Checkpoint` would remove.

    They lie in the folder `recent` in the directory of the checkpoints: as further names of the same
    files where the file system has these, else as copies. Put it after the `Checkpoint`.

    Args:
        checkpoint: what writes them.
        num: how many epochs are kept.

    Raises:
        TypeError: `num` is no integer.
        ValueError: `num` is not above zero.
    """

    def __init__(self, checkpoint: Checkpoint, num: int) -> None:
        super().__init__()
        check_positive(num=num)
        self.checkpoint = checkpoint
        self.num = num

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Keep the last epoch of a run that was stopped before it was kept."""
        if self.checkpoint.state.epoch:
            self._keep()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keep the epoch, and forget the oldest.

        Args:
            epoch: counted from 0.
            logs: each metric's value.
        """
        self._keep()

    def _keep(self) -> None:
        name = self.checkpoint.state.last_file
        folder = self.checkpoint.directory / FOLDER
        folder.mkdir(exist_ok=True)
        _link(self.checkpoint.directory / name, folder / name)
        last = self.checkpoint.state.epoch
        kept = [epoch_file(epoch) for epoch in range(last - self.num + 1, last + 1)]
        for path in saved_epochs(folder):
            if path.name not in kept:  # older, or of a run that stood here before
                path.unlink()


def restore_average(model: keras.Model, directory: str | Path, num: int) -> None:
    """Give a model the mean of the weights of the last epochs; Keras need not know its class.

    Args:
        model: compiled as it was.
        directory: of a `Checkpoint` with a `KeepRecent`.
        num: how many epochs; fewer where fewer are there. One that is damaged is left out, with a
            `CheckpointWarning`.

    Raises:
        InputError: no epoch was kept, or none is whole and of this model.
    """
    sums: list[Any] = [0.0] * len(model.weights)

    def add(path: Path) -> None:
        """Add the weights of a file."""
        load_weights(model, path)
        for number, weight in enumerate(model.weights):
            sums[number] = sums[number] + ops.convert_to_numpy(weight).astype("float64")

    num_whole = len(_whole(_recent(directory, num), add))
    for weight, total in zip(model.weights, sums, strict=True):
        weight.assign(ops.cast((total / num_whole).astype("float32"), weight.dtype))


def average_recent(directory: str | Path, num: int) -> keras.Model:
    """Make the model whose weights are the mean of those of the last epochs.

    Args:
        directory: of a `Checkpoint` with a `KeepRecent`.
        num: how many epochs; fewer where fewer are there. One that is damaged is left out, with a
            `CheckpointWarning`.

    Returns:
        A model; see `average_weights`.

    Raises:
        InputError: no epoch was kept, or none is whole.
    """
    paths = _recent(directory, num)
    try:
        return average_weights(paths)
    except InputError:  # only then is it worth reading each file twice
        return average_weights(_whole(paths, load_model))


def _whole(paths: list[Path], read: Callable[[Path], Any]) -> list[Path]:
    """Read files, and list those that can be read."""
    errors = {path: error for path in paths if (error := _error_of(path, read)) is not None}
    if len(errors) == len(paths):
        raise errors[paths[0]]
    for error in errors.values():
        warnings.warn(f"{error} It is left out of the average.", CheckpointWarning, stacklevel=3)
    return [path for path in paths if path not in errors]


def _error_of(path: Path, read: Callable[[Path], Any]) -> InputError | None:
    try:
        read(path)
    except InputError as error:
        return error
    return None


def _recent(directory: str | Path, num: int) -> list[Path]:
    paths = saved_epochs(Path(directory, FOLDER))[-num:]
    if not paths:
        raise InputError(f"{Path(directory, FOLDER)} holds no checkpoints to average.")
    return paths


def _link(path: Path, copy: Path) -> None:
    with atomic_file(copy) as partial:
        try:
            os.link(path, partial)
        except OSError:  # a file system without a second name for a file
            shutil.copyfile(path, partial)
