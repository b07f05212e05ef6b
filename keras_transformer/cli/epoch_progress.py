"""Progress bar for each training epoch."""

import sys
from collections.abc import Mapping

import click
import keras
from click.termui import progressbar


class _EpochProgress(keras.callbacks.Callback):
    """Progress bar with loss and accuracy for each epoch, and a summary line at its end."""

    def __init__(self, monitor: str) -> None:
        super().__init__()
        self._names = tuple(dict.fromkeys(("loss", "accuracy", "val_loss", "val_accuracy", f"val_{monitor}")))

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        # None in the first epoch of a dataset whose length is unknown.
        steps = self.params["steps"]
        self._bar = progressbar(
            length=steps,
            label=f"epoch {epoch + 1}/{self.params['epochs']}",
            file=sys.stderr,
            item_show_func=self._format_logs,
            update_min_steps=max((steps or 100) // 100, 1),
        )
        self._bar.__enter__()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        self._bar.update(1, logs)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        self._bar.__exit__(None, None, None)
        click.echo(f"epoch {epoch + 1}: {self._format_logs(logs)}", err=True)

    def _format_logs(self, logs: Mapping[str, float] | None) -> str:
        logs = logs or {}
        return "  ".join(f"{name} {float(logs[name]):.4f}" for name in self._names if name in logs)
