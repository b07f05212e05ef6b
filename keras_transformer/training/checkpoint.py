"""Checkpoints of a run, its history and its end."""

import csv
import dataclasses
import importlib.util
import io
import math
import time
import warnings
from pathlib import Path

import keras

from keras_transformer._arguments import check_finite, check_kind, check_positive
from keras_transformer._backend.random import GeneratorState
from keras_transformer._files import as_path, remove_partials, write_file
from keras_transformer.errors import InputError
from keras_transformer.training.averages import _apply_moving_average, _Mean
from keras_transformer.training.checkpoint_state import (
    CHECKPOINTS,
    _CheckpointState,
    _damage,
    _describe,
    _epoch_files,
    _load_weights,
    _read_model,
    _read_state,
    _save_epoch,
    _set_seeds,
    _whole,
    _write_state,
)
from keras_transformer.training.metrics import _rises

# A picture takes 0.3 s, of which short epochs would spend most of their time.
_SECONDS_BETWEEN_PICTURES = 10


# Rejected: `keras.callbacks.BackupAndRestore`, which removes the old state before the new one is known to be
# whole, and `keras.callbacks.EarlyStopping`, which forgets its patience when a run is resumed.
class Checkpoint(keras.callbacks.Callback):
    """Saves a run after each epoch: model, optimizer, random state and history.

    The directory gets `checkpoints/epoch-{n}.keras` for the newest epochs and the best one,
    `checkpoints/state.json` and `training.csv`, and in the end or after some seconds `training.png`, if
    matplotlib is installed. Whenever the process is killed, the directory holds a whole checkpoint. Each has
    a SHA-256: a damaged file costs an epoch, with a warning.

    Args:
        directory: Of the run. What it holds is read, the newest whole checkpoint first.
        monitor: What chooses the best epoch: its highest value for a metric that says that it rises, as
            `MaskedAccuracy` and Keras's own do, else its lowest. None for that of the run so far, and
            `val_loss` in a new run. Epochs without a value of it are not compared.
        keep: The number of newest epochs to keep. With 1, no checkpoint is left if it is damaged.
        patience: Stop training after so many epochs in a row that are no better, those before a stop
            included. None to go on to the end.

    Raises:
        TypeError: If a number is not an integer.
        ValueError: If a number is not above zero.
        InputError: If no checkpoint is whole, or `state.json` is lost or damaged.

    Example:
        ```python
        checkpoint = Checkpoint("run")
        checkpoint.restore(model)  # does nothing in a new run
        model.fit(dataset, epochs=20, initial_epoch=checkpoint.epoch, callbacks=[checkpoint])
        ```
    """

    def __init__(
        self, directory: str | Path, *, monitor: str | None = None, keep: int = 2, patience: int | None = None
    ) -> None:
        super().__init__()
        check_kind(str, None, monitor=monitor)
        check_positive(keep=keep, patience=1 if patience is None else patience)
        self.directory = as_path(directory)
        self._checkpoints = self.directory / CHECKPOINTS
        state = _whole(self._checkpoints, _read_state(self._checkpoints))
        self.monitor = monitor or state.monitor or "val_loss"
        if state.monitor not in ("", self.monitor):
            warnings.warn(
                f"The best epoch so far was chosen by {state.monitor}, and from now on by {self.monitor}: "
                "only epochs that are kept and have a value of it are compared.",
                UserWarning,
                stacklevel=2,
            )
        self._state = dataclasses.replace(state, monitor=self.monitor)
        self.keep = keep
        self.patience = patience
        self._has_weights = not state.saved
        self._drawn = time.monotonic()

    @property
    def epoch(self) -> int:
        """The number of epochs that are saved."""
        return self._state.epoch

    @property
    def best_epoch(self) -> int:
        """The epoch with the best monitored value, counted from 1; 0 in a new run."""
        return self._state.best.epoch if self._state.saved else 0

    @property
    def history(self) -> dict[str, list[float]]:
        """Each metric's value after each epoch; NaN for what an epoch did not measure."""
        return self._state.history

    def is_over(self, epochs: int) -> bool:
        """Return whether so many epochs are saved, or patience is over."""
        return self.epoch >= epochs or self._has_waited()

    def _has_waited(self) -> bool:
        return self.patience is not None and self.epoch - self.best_epoch >= self.patience

    def restore(self, model: keras.Model) -> None:
        """Give a compiled model the weights, optimizer and random state of the newest epoch.

        Args:
            model: Made and compiled as before; Keras need not know its class. Unchanged in a new run.

        Raises:
            InputError: If the checkpoints are of another model or optimizer.
        """
        options, state = _describe(model), self._state
        differing = [
            f"{name}={options[name]!r} after {value!r}"
            for name, value in state.model.items()
            if name in options and options[name] != value
        ]
        if differing:
            raise InputError(
                f"{self._checkpoints} holds checkpoints of another model or optimizer. Make it as it was, or "
                f"choose another directory. Received: {', '.join(differing)}."
            )
        if state.saved:
            _load_weights(model, self._checkpoints / state.saved[-1].file)
            _set_seeds(model, state.saved[-1].seeds)
        self._has_weights = True

    def load_model(self) -> keras.Model:
        """Load the model of the newest epoch as it was compiled, to go on with it; raise if there is none."""
        if not self._state.saved:
            raise InputError(f"{self._checkpoints} holds no checkpoint.")
        model = load_model(self._checkpoints / self._state.saved[-1].file)
        self.restore(model)
        return model

    def restore_result(self, model: keras.Model, average_last: int | None = None) -> None:
        """Give a compiled model the weights to use, as `load_model` does."""
        if average_last is None:
            state = _whole(self._checkpoints, self._state, best=True)
            _load_weights(model, self._checkpoints / state.best.file)
            _apply_moving_average(model)
        else:
            _read_average(model, self._checkpoints, self._state, average_last)

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Raise for a model without the weights of the run, and let torch's generator go on."""
        if not self._has_weights:
            raise InputError(
                f"{self.directory} holds the checkpoints of a run. Go on with it by `restore(model)`, or "
                f"choose another directory. Received: a model without the weights of epoch {self.epoch}."
            )
        if self._state.saved:  # the generator is one for the process, and others draw from it too
            GeneratorState.write(self._state.saved[-1].generator)

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Raise for an epoch that is saved already."""
        if epoch < self.epoch:
            raise InputError(
                f"{self.directory} has {self.epoch} epochs already. Go on by "
                "`initial_epoch=checkpoint.epoch` of `model.fit`, where `epochs` counts all of them. "
                f"Received: epoch {epoch + 1}."
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Save the epoch; stop training when patience is over."""
        logs = {name: float(value) for name, value in (logs or {}).items()}
        if self.monitor not in logs:
            hint = " The validation had no batch, or does not follow each epoch."
            raise ValueError(
                f"`monitor` must be one of {', '.join(logs)}. Received: monitor={self.monitor!r}."
                f"{hint if self.monitor.startswith('val_') else ''}"
            )
        # Each file is written next to its place, flushed to the disk and renamed, the state after the
        # checkpoint, and only then are older files removed.
        saved = _save_epoch(self.model, self._checkpoints, epoch + 1)
        state = self._state.add(saved, logs, _describe(self.model))
        # Not sooner: Keras makes its metrics when it sees the first batch.
        state = dataclasses.replace(state, monitor_rises=_rises(self.model, self.monitor)).keep(self.keep)
        # The state comes last: a run killed before has at most a row of an epoch that is trained again.
        write_file(self.directory / "training.csv", _table(state.history).encode())
        if time.monotonic() - self._drawn > _SECONDS_BETWEEN_PICTURES:
            self._draw(state)
        _write_state(self._checkpoints, state)
        self._state, self._has_weights = state, True
        self._remove_others()
        if self._has_waited():
            self.model.stop_training = True

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        """Draw the history."""
        if self._state.saved:
            self._draw(self._state)

    def _draw(self, state: _CheckpointState) -> None:
        # Matplotlib draws no number that the table lacks: where there is none, as on a machine that has only
        # what trains, a run goes on without the picture.
        if importlib.util.find_spec("matplotlib") is None:
            return
        from keras_transformer.visualization import plot_training

        plot_training(state.history, path=self.directory / "training.png")
        self._drawn = time.monotonic()

    def _remove_others(self) -> None:
        """Remove older checkpoints, and what a killed process was writing."""
        # Only now that the state is written, and only files whose names are those of checkpoints.
        kept = {saved.file for saved in self._state.saved}
        for path in _epoch_files(self._checkpoints):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        remove_partials(self._checkpoints, seconds=0)


def _table(history: dict[str, list[float]]) -> str:
    """Write a row for each epoch; what an epoch did not measure is empty."""
    columns = [["" if math.isnan(value) else repr(value) for value in values] for values in history.values()]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["epoch", *history])
    writer.writerows((number, *row) for number, row in enumerate(zip(*columns, strict=True), start=1))
    return text.getvalue()


def load_model(path: str | Path, *, average_last: int | None = None) -> keras.Model:
    """Load a model from a `.keras` file, or what `fit` trained from the directory of a run.

    Args:
        path: A file, or a directory that `fit` or `Checkpoint` wrote to.
        average_last: For a directory, the number of last epochs whose weights are averaged. None for the
            best epoch, with the moving average of its weights if the optimizer keeps one.

    Returns:
        The model, compiled as it was.

    Raises:
        InputError: If the file is missing, damaged or has weights that are not finite or far larger than it,
            or the directory holds no whole checkpoint.
    """
    path = as_path(path)
    check_positive(average_last=1 if average_last is None else average_last)
    if path.is_dir():
        directory = path / CHECKPOINTS
        state = _whole(directory, _read_state(directory))
        if not state.saved:
            raise InputError(f"{directory} holds no checkpoint.")
        if average_last is None:
            model = _read_model(directory / _whole(directory, state, best=True).best.file)
            _apply_moving_average(model)
        else:
            model = _read_model(directory / state.saved[-1].file)
            _read_average(model, directory, state, average_last)
    else:
        model = _read_model(path)
    check_finite(path, model.weights)
    return model


def _read_average(model: keras.Model, directory: Path, state: _CheckpointState, num: int) -> None:
    """Give a model the mean of the weights of the last epochs that are whole."""
    mean = _Mean()
    for saved in (saved for saved in state.saved if saved.epoch > state.epoch - num):
        if (error := _damage(directory, saved)) is None:
            _load_weights(model, directory / saved.file)
            mean.add(model)
        else:
            warnings.warn(f"{error} It is left out of the average.", UserWarning, stacklevel=3)
    mean.assign(model)
