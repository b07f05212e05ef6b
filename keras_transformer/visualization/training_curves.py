"""Training curves: loss and metrics by epoch."""

import math
import os
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from keras_transformer._arguments import check_kind, check_positive
from keras_transformer.visualization.figures import _label_axis, _new_figure, _saved_figure

_MAX_COLUMNS = 3
_VALIDATION = "val_"


def plot_training(
    history: Mapping[str, Sequence[float]],
    *,
    path: str | os.PathLike[str] | None = None,
    title: str = "Training",
    validation_freq: int = 1,
) -> Figure:
    """Plot each metric of a training history by epoch.

    A metric and its validation metric (`val_`) share a panel.

    Args:
        history: Values per epoch by metric name, as `model.fit(...).history`.
        path: File to write the figure to; its suffix sets the format. Defaults to None, no file.
        title: Title of the figure.
        validation_freq: Number of epochs between validations, as passed to `model.fit`.

    Returns:
        The figure.

    Raises:
        ValueError: If `history` is empty, or a metric does not have one value per epoch or per validation.
        InputError: If the file cannot be written.
    """
    check_kind(Mapping, history=history)
    check_positive(validation_freq=validation_freq)
    if not any(len(values) for values in history.values()):
        raise ValueError(f"`history` must have values of at least one epoch. Received: {dict(history)}.")
    history = {name: values for name, values in history.items() if len(values)}
    epochs = _epochs(history, validation_freq)
    metrics = list(dict.fromkeys(name.removeprefix(_VALIDATION) for name in history))
    num_columns = min(len(metrics), _MAX_COLUMNS)
    num_rows = math.ceil(len(metrics) / num_columns)
    figure = _new_figure((4.5 * num_columns, 3.5 * num_rows), title)
    panels = list(figure.subplots(num_rows, num_columns, squeeze=False).flat)
    for metric, axes in zip(metrics, panels, strict=False):
        for name, label in ((metric, "training"), (_VALIDATION + metric, "validation")):
            if name in history:
                # Markers make a single epoch visible.
                axes.plot(epochs[name], history[name], marker="o", markersize=3, label=label)
        _label_axis(axes.xaxis, "epoch")
        axes.set_ylabel(metric.replace("_", " "))
        axes.grid(alpha=0.3)
        axes.legend()
    for axes in panels[len(metrics) :]:
        axes.remove()
    return _saved_figure(figure, path)


def _epochs(history: Mapping[str, Sequence[float]], validation_freq: int) -> dict[str, range]:
    """Return the epochs of each metric's values, counted from 1."""
    steps = {name: validation_freq if name.startswith(_VALIDATION) else 1 for name in history}
    of_training = [len(history[name]) for name in history if not name.startswith(_VALIDATION)]
    num_epochs = max(of_training or (len(history[name]) * steps[name] for name in history))
    epochs = {name: range(step, num_epochs + 1, step) for name, step in steps.items()}
    for name, values in history.items():
        if len(values) != len(epochs[name]):
            raise ValueError(
                f"`history` must have a value of each epoch, and what begins with `{_VALIDATION}` one of "
                f"every `validation_freq`-th. Received: {len(values)} values of {name} in {num_epochs} "
                f"epochs, validation_freq={validation_freq}."
            )
    return epochs
