"""A loss that is no number any more stops the run before it is saved."""

import io
import math
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.files import write_file
from keras_transformer.training.recent_batches import RecentBatches

BATCH_FILE = "non_finite_batch.npz"


class StopOnNonFinite(keras.callbacks.Callback):
    """Stops training with an error as soon as a loss is NaN or infinite.

    `keras.callbacks.TerminateOnNaN` does not do: it lets the epoch end, so that useless weights
    take the place of good ones, and does not look at the loss of the validation, which is the
    first to tell of weights lost in the last batch. It comes before `Checkpoint` among the callbacks.

    Args:
        recent: the batches of the dataset that is trained on, so that the wrong one can be saved.
        directory: where to save its arrays, as `non_finite_batch.npz`; made if absent.

    Example:
        >>> StopOnNonFinite().on_train_batch_end(3, {"loss": float("nan")})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        keras_transformer.errors.InputError: The loss must be finite. Received: loss=nan after batch 4...
    """

    def __init__(self, recent: RecentBatches | None = None, directory: str | Path | None = None) -> None:
        super().__init__()
        self._recent, self._directory = recent, directory
        self._epoch = 0
        self._num_batches: int | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Note where training is; `epoch` counts from 0."""
        self._epoch, self._num_batches = epoch, 0

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Look at the loss so far.

        Args:
            batch: counted from 0.
            logs: each metric's value.

        Raises:
            InputError: the loss is not finite.
        """
        self._num_batches = batch + 1
        self._check(logs, f"batch {batch + 1} of epoch {self._epoch + 1}", batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Look at the loss of the validation too.

        Args:
            epoch: counted from 0.
            logs: each metric's value.

        Raises:
            InputError: a loss is not finite, or there was no batch to have one.
        """
        # After the first epoch Keras has a loss all the same: 0, or that of the epoch before.
        if self._num_batches == 0 or (logs is not None and "loss" not in logs):
            raise InputError(
                "The training dataset must have at least one batch in each epoch. "
                f"Received: 0 batches in epoch {epoch + 1}."
            )
        self._check(logs, f"epoch {epoch + 1}")

    def _check(self, logs: dict[str, float] | None, moment: str, batch: int | None = None) -> None:
        for name, value in (logs or {}).items():
            if name.endswith("loss") and not math.isfinite(value):
                saved = "" if batch is None else self._save(batch)
                raise InputError(
                    f"The loss must be finite. Received: {name}={float(value)} after {moment}"
                    f"{self._learning_rate()}.{saved} A lower learning rate or a longer warm-up may help."
                )

    def _learning_rate(self) -> str:
        """Name the step and the rate of the last update."""
        optimizer = getattr(getattr(self, "model", None), "optimizer", None)
        if optimizer is None:
            return ""
        # While JAX trains, the weights and the optimizer do not have their numbers.
        getattr(self.model, "jax_state_sync", lambda: None)()
        rate = float(ops.convert_to_numpy(optimizer.learning_rate))
        return f", step {int(ops.convert_to_numpy(optimizer.iterations)):,}, at the learning rate {rate:.3g}"

    def _save(self, batch: int) -> str:
        """Save the arrays of a batch, and say where."""
        # Of several batches in one call it is not known which was wrong.
        is_one = getattr(getattr(self, "model", None), "steps_per_execution", 1) == 1
        arrays = self._recent.arrays(batch) if self._recent is not None and is_one else None
        if arrays is None or self._directory is None:
            return ""
        path, content = Path(self._directory) / BATCH_FILE, io.BytesIO()
        np.savez(content, *arrays)
        write_file(path, content.getvalue())
        return f" The ids of that batch are in {path}."
