"""The checkpoints of the last epochs, to average them."""

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.layers.validation import check_positive
from keras_transformer.training.averaging import average_weights
from keras_transformer.training.checkpoint_state import CheckpointWarning
from keras_transformer.training.checkpoints import Checkpoint
from keras_transformer.training.model_files import epoch_file, load_model, load_weights, saved_epochs

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
    partial = copy.with_name(f".partial-{copy.name}")
    partial.unlink(missing_ok=True)
    try:
        os.link(path, partial)
    except OSError:  # a file system without a second name for a file
        shutil.copyfile(path, partial)
    partial.replace(copy)
    # Where both were names of the same file, `replace` does nothing.
    partial.unlink(missing_ok=True)
