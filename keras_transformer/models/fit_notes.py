"""Warnings of `fit` about trainings that are too short."""

import logging

import keras
from keras import ops

from keras_transformer._arguments import warn_user

_LOGGER = logging.getLogger(__name__)


class _FitNotes(keras.callbacks.Callback):
    """Callback that warns of fewer updates than warm-up steps, and of a loss still falling at the end."""

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._losses: list[float] = []
        self._last = 0
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        schedule = getattr(optimizer, "_learning_rate", None)
        warmup_steps = getattr(schedule, "warmup_steps", None)
        steps = self.params.get("steps")
        # Not for a resumed training or a dataset of unknown length.
        if not warmup_steps or not steps or int(ops.convert_to_numpy(optimizer.iterations)):
            return
        epochs = self.params["epochs"]
        num_updates = epochs * (steps // (optimizer.gradient_accumulation_steps or 1))
        if num_updates < warmup_steps:
            warn_user(
                f"The training is shorter than its warm-up, and may learn next to nothing: {num_updates:,} "
                f"updates in {epochs} epochs, warmup_steps={warmup_steps:,} of {type(schedule).__name__}. "
                "Give it a shorter warm-up, smaller batches or more epochs; `runs.Recipe.of(pairs)` chooses."
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._last = epoch + 1
        if logs and "val_loss" in logs:
            self._losses.append(float(logs["val_loss"]))

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        # Not for a training that was stopped early.
        is_whole = self._last == self.params["epochs"] and len(self._losses) > 1
        if self.params.get("verbose") and is_whole and self._losses[-1] == min(self._losses):
            _LOGGER.warning(
                "The validation loss was still falling in epoch %d. To go on: `model.fit` with "
                "initial_epoch=%d, epochs=%d, or `training.fit` with epochs=%d.",
                *(self._last, self._last, 2 * self._last, 2 * self._last),
            )
