"""Checkpoints of a training run, with its history."""

import csv
import dataclasses
import io
import math
from pathlib import Path

import keras

from keras_transformer._arguments import check_finite, check_kind, check_positive, warn_user
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


# Rejected: `keras.callbacks.BackupAndRestore`, which deletes the old state before the new one is verified,
# and `keras.callbacks.EarlyStopping`, which restarts its patience when a run is resumed.
class Checkpoint(keras.callbacks.Callback):
    """Callback that saves a run after each epoch: model, optimizer, random state and history.

    It writes `checkpoints/epoch-{n}.keras` for the newest epochs and the best one, `checkpoints/state.json`,
    and `training.csv`. The directory holds an intact checkpoint at any time, even if the process is killed.
    Each checkpoint is verified by its SHA-256; a damaged one is skipped with a warning, and training
    continues from the one before. `visualization.plot_training(checkpoint.history)` draws the curves.

    Args:
        directory: Directory of the run. If it has checkpoints, `restore` loads the newest intact one.
        monitor: Metric that selects the best epoch. Higher is better for metrics that Keras maximizes, such
            as `MaskedAccuracy` and Keras's own accuracies; lower is better for all others. Defaults to the
            monitor of the resumed run, else `val_loss`. Epochs in which it is NaN are ignored.
        keep: Number of newest epochs to keep. Defaults to 2, so that one is left if the newest is damaged.
        patience: Stop after this many epochs without improvement, including epochs before a resume. Defaults
            to no early stopping.

    Raises:
        TypeError: If a number is not an integer.
        ValueError: If a number is not above zero.
        InputError: If all checkpoints are damaged, or `state.json` is missing or damaged.

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
            warn_user(
                f"The best epoch so far was chosen by {state.monitor}, and from now on by {self.monitor}: "
                "only epochs that are kept and have a value of it are compared."
            )
        self._state = dataclasses.replace(state, monitor=self.monitor)
        self.keep = keep
        self.patience = patience
        self._has_weights = not state.saved

    @property
    def epoch(self) -> int:
        """Number of saved epochs."""
        return self._state.epoch

    @property
    def best_epoch(self) -> int:
        """Epoch with the best monitored value, counted from 1. 0 in a new run."""
        return self._state.best.epoch if self._state.saved else 0

    @property
    def history(self) -> dict[str, list[float]]:
        """Values of each metric after each epoch. NaN where an epoch did not measure it."""
        return self._state.history

    def is_over(self, epochs: int) -> bool:
        """Return whether this many epochs are saved, or patience has run out."""
        return self.epoch >= epochs or self._patience_is_over()

    def _patience_is_over(self) -> bool:
        return self.patience is not None and self.epoch - self.best_epoch >= self.patience

    def restore(self, model: keras.Model) -> None:
        """Load weights, optimizer and random state of the newest epoch into a compiled model.

        Args:
            model: Model, built and compiled as in the run. Its class need not be registered with Keras. In
                a new run, it stays as it is.

        Raises:
            InputError: If the checkpoints belong to another model or optimizer.
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
        """Load the compiled model of the newest epoch to continue; raise InputError if there is none."""
        if not self._state.saved:
            raise InputError(f"{self._checkpoints} holds no checkpoint.")
        model = load_model(self._checkpoints / self._state.saved[-1].file)
        self.restore(model)
        return model

    def restore_result(self, model: keras.Model, average_last: int | None = None) -> None:
        """Load the weights that `training.load_model` reads from this directory into a compiled model."""
        if average_last is None:
            state = _whole(self._checkpoints, self._state, best=True)
            _load_weights(model, self._checkpoints / state.best.file)
            _apply_moving_average(model)
        else:
            _read_average(model, self._checkpoints, self._state, average_last)

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        """Raise if the model lacks the weights of the run; restore torch's random generator."""
        if not self._has_weights:
            raise InputError(
                f"{self.directory} holds the checkpoints of a run. Go on with it by `restore(model)`, or "
                f"choose another directory. Received: a model without the weights of epoch {self.epoch}."
            )
        if self._state.saved:  # the process has a single generator, which others also use
            GeneratorState.write(self._state.saved[-1].generator)

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Raise if the epoch is already saved."""
        if epoch < self.epoch:
            raise InputError(
                f"{self.directory} has {self.epoch} epochs already. Go on by "
                "`initial_epoch=checkpoint.epoch` of `model.fit`, where `epochs` counts all of them. "
                f"Received: epoch {epoch + 1}."
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Save the epoch; stop training if patience has run out."""
        logs = {name: float(value) for name, value in (logs or {}).items()}
        if self.monitor not in logs:
            hint = " The validation had no batch, or does not follow each epoch."
            raise ValueError(
                f"`monitor` must be one of {', '.join(logs)}. Received: monitor={self.monitor!r}."
                f"{hint if self.monitor.startswith('val_') else ''}"
            )
        # Write each file under a temporary name, flush and rename it: first the checkpoint, then the state.
        # Remove older files last.
        saved = _save_epoch(self.model, self._checkpoints, epoch + 1)
        state = self._state.add(saved, logs, _describe(self.model))
        # Only now: Keras creates the metrics at the first batch.
        state = dataclasses.replace(state, monitor_rises=_rises(self.model, self.monitor)).keep(self.keep)
        # Before the state: if killed in between, the CSV has one row of an epoch that is trained again.
        write_file(self.directory / "training.csv", _table(state.history).encode())
        _write_state(self._checkpoints, state)
        self._state, self._has_weights = state, True
        self._remove_others()
        if self._patience_is_over():
            self.model.stop_training = True

    def _remove_others(self) -> None:
        """Delete older checkpoints and partial files of a killed process."""
        # After the state is written, and only files with the name of a checkpoint.
        kept = {saved.file for saved in self._state.saved}
        for path in _epoch_files(self._checkpoints):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        remove_partials(self._checkpoints, seconds=0)


def _table(history: dict[str, list[float]]) -> str:
    """Return the history as CSV, a row per epoch; missing values are empty."""
    columns = [["" if math.isnan(value) else repr(value) for value in values] for values in history.values()]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["epoch", *history])
    writer.writerows((number, *row) for number, row in enumerate(zip(*columns, strict=True), start=1))
    return text.getvalue()


def load_model(path: str | Path, *, average_last: int | None = None) -> keras.Model:
    """Load a model from a `.keras` file, or the trained model from the directory of a run.

    Args:
        path: Path of a file, or of a directory written by `fit` or `Checkpoint`.
        average_last: For a directory: average the weights of this many last epochs. Defaults to the best
            epoch, with the moving average of its weights if the optimizer keeps one.

    Returns:
        The model, compiled as it was.

    Raises:
        InputError: If the file is missing, is damaged or would need far more memory than its size, its
            weights are not finite, or the directory has no intact checkpoint.
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
    """Load the average weights of the last epochs, without damaged ones, into a model."""
    mean = _Mean()
    for saved in (saved for saved in state.saved if saved.epoch > state.epoch - num):
        if (error := _damage(directory, saved)) is None:
            _load_weights(model, directory / saved.file)
            mean.add(model)
        else:
            warn_user(f"{error} It is left out of the average.")
    mean.assign(model)
