"""Stopping when nothing gets better, also in a run that was resumed."""

from typing import Any

import keras

from keras_transformer.layers.validation import check_positive
from keras_transformer.training.checkpoint_state import CheckpointState
from keras_transformer.training.checkpoints import Checkpoint


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
