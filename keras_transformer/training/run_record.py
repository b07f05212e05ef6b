"""The numbers of a run as a table and as a picture."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import keras

from keras_transformer.files import write_file
from keras_transformer.training.checkpoints import Checkpoint

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
