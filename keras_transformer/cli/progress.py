"""Progress on standard error: of training, and of anything that has a length."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
import keras
from click.termui import progressbar

from keras_transformer.runs.config import MONITORS


class EpochProgress(keras.callbacks.Callback):
    """A bar for each epoch, with loss and accuracy, and a line when the epoch is done."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Start a bar; `epoch` counts from 0."""
        label = f"epoch {epoch + 1}/{self.params['epochs']}"
        self._bar: Any = progressbar(
            length=self.params["steps"],
            label=label,
            file=sys.stderr,
            item_show_func=lambda logs: _numbers(logs or {}),
            update_min_steps=max((self.params["steps"] or 100) // 100, 1),
        )
        self._bar.__enter__()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Move the bar."""
        self._bar.update(1, logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Finish the bar, and say what the epoch reached."""
        self._bar.__exit__(None, None, None)
        click.echo(f"epoch {epoch + 1}: {_numbers(logs or {})}", err=True)


@contextlib.contextmanager
def progress_bar(length: int, label: str) -> Iterator[Callable[[int], None]]:
    """Show a bar while something long runs.

    Args:
        length: how many items there are.
        label: what is done with them.

    Yields:
        a function that is told how many more items are done.
    """
    with progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update


def _numbers(logs: dict[str, float]) -> str:
    names = ("loss", "accuracy", *(f"val_{name}" for name in ("loss", "accuracy", *MONITORS[1:])))
    return "  ".join(f"{name} {float(logs[name]):.4f}" for name in names if name in logs)
