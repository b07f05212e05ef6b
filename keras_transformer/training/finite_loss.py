"""A loss that is no number any more stops the run before it is saved."""

import math

import keras

from keras_transformer.errors import InputError


class StopOnNonFinite(keras.callbacks.Callback):
    """Stops training with an error as soon as a loss is NaN or infinite.

    `keras.callbacks.TerminateOnNaN` does not do: it lets the epoch end, so that useless weights
    take the place of good ones, and does not look at the loss of the validation, which is the
    first to tell of weights lost in the last batch. It comes before `Checkpoint` among the callbacks.

    Example:
        >>> StopOnNonFinite().on_train_batch_end(3, {"loss": float("nan")})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        keras_transformer.errors.InputError: The loss must be finite. Received: loss=nan after batch 4...
    """

    def __init__(self) -> None:
        super().__init__()
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Note where training is; `epoch` counts from 0."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Look at the loss so far.

        Args:
            batch: counted from 0.
            logs: each metric's value.

        Raises:
            InputError: the loss is not finite.
        """
        _check(logs, f"batch {batch + 1} of epoch {self._epoch + 1}")

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Look at the loss of the validation too.

        Args:
            epoch: counted from 0.
            logs: each metric's value.

        Raises:
            InputError: a loss is not finite.
        """
        _check(logs, f"epoch {epoch + 1}")


def _check(logs: dict[str, float] | None, moment: str) -> None:
    for name, value in (logs or {}).items():
        if name.endswith("loss") and not math.isfinite(value):
            raise InputError(
                f"The loss must be finite. Received: {name}={float(value)} after {moment}. "
                "A lower learning rate or a longer warm-up may help."
            )
