"""Plots of training curves: loss and metrics per epoch."""

import math
import os
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from keras_transformer._arguments import check_kind, check_positive
from keras_transformer.visualization.figures import _label_axis, _new_figure, _saved_figure

_MAX_COLUMNS = 3
_VALIDATION = "val_"
# Names that need an explanation. `padding` is measured by `training.Throughput`.
_LABELS = {"padding": "padding (share of target positions)"}


def plot_training(
    history: Mapping[str, Sequence[float]],
    *,
    path: str | os.PathLike[str] | None = None,
    title: str = "Training",
    validation_freq: int = 1,
) -> Figure:
    """Plot the loss and metrics of a training history, one panel per metric.

    A metric and its `val_` counterpart share a panel. The panel `padding` (see `training.Throughput`) shows
    the share of target positions that are padding, 0 to 1; source positions are not counted.

    Args:
        history: Values per epoch, such as `model.fit(...).history`.
        path: File to write; its suffix sets the format. Defaults to no file.
        title: Title of the figure.
        validation_freq: The `validation_freq` of `model.fit`: epochs between two validation values.

    Returns:
        The figure.

    Raises:
        InputError: If the file cannot be written.
        ValueError: If `history` has no values, or the number of values does not match the number of epochs.
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
        axes.set_ylabel(_LABELS.get(metric, metric.replace("_", " ")))
        axes.grid(alpha=0.3)
        axes.legend()
    for axes in panels[len(metrics) :]:
        axes.remove()
    return _saved_figure(figure, path)


def _epochs(history: Mapping[str, Sequence[float]], validation_freq: int) -> dict[str, range]:
    """Return the epochs of the values of each metric, from 1."""
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
