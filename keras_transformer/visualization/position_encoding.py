"""Position encodings: the mark of each position, and how single columns of it move."""

import os
from collections.abc import Sequence

import numpy as np
from keras import ops
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from keras_transformer.types import Tensor
from keras_transformer.visualization.token_labels import save_figure, show_any_script

_LEGEND_COLUMNS = 6
_MAX_MARKERS = 100


def plot_position_encoding(
    encoding: Tensor,
    *,
    path: str | os.PathLike[str] | None = None,
    columns: Sequence[int] | None = None,
    title: str = "Position encoding",
) -> Figure:
    """Draw a position encoding as a map, and a few of its columns as curves below it.

    Both panels have the position from left to right.

    Args:
        encoding: `(t, d)`, a vector for each position, computed or learned.
        path: where to write the picture; it is not written without one.
        columns: the columns that are drawn as curves; 0, `d/8`, `d/4` and `d/2` if None.
        title: what stands above it.

    Returns:
        The figure.

    Raises:
        ValueError: `encoding` is not a matrix of finite numbers, or has no such columns.
        InputError: the picture cannot be written.

    Example:
        >>> from keras_transformer.layers.position_encoding import sinusoidal_position_encoding
        >>> figure = plot_position_encoding(sinusoidal_position_encoding(50, 64))
        >>> [axes.get_xlabel() for axes in figure.axes[:2]]
        ['position', 'position']
    """
    values = _matrix(encoding)  # (t, d)
    columns = _columns(columns, values.shape[1])
    figure = Figure((9.0, 7.0), layout="constrained")
    show_any_script(figure.suptitle(title))
    heat, curves = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_map(figure, heat, values)
    # Points show a single position, which has no line; many would hide the curves.
    marker = "o" if len(values) <= _MAX_MARKERS else ""
    for column in columns:
        curves.plot(values[:, column], marker=marker, markersize=3, label=f"column {column}")
    curves.set(xlabel="position", ylabel="value")
    curves.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)
    curves.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if path is not None:
        save_figure(figure, path)
    return figure


def _draw_map(figure: Figure, axes: Axes, values: np.ndarray) -> None:
    """Draw `(t, d)` with a column of the encoding as a row, white where it is 0."""
    limit = float(np.abs(values).max()) or 1.0  # an encoding of zeros has a scale, too
    # Not smoothed: neighboring columns, a sine and a cosine, would be mixed.
    image = axes.imshow(
        values.T, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    axes.set(xlabel="position", ylabel="column of the encoding")
    axes.tick_params(labelbottom=True)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    figure.colorbar(image, ax=axes, label="value")


def _matrix(encoding: Tensor) -> np.ndarray:
    """Return the encoding as float32 `(t, d)`."""
    values = np.asarray(ops.convert_to_numpy(encoding), dtype="float32")
    if values.ndim != 2 or not values.size:
        raise ValueError(
            "`encoding` must have the shape (positions, width), none of them 0. "
            f"Received: encoding of shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError(
            f"`encoding` must be finite. Received: {np.count_nonzero(~np.isfinite(values))} NaN or inf."
        )
    return values


def _columns(columns: Sequence[int] | None, width: int) -> list[int]:
    """Return the columns to draw, each once; by default from the shortest waves to long ones."""
    chosen = [0, width // 8, width // 4, width // 2] if columns is None else list(columns)
    if not chosen or not all(0 <= column < width for column in chosen):
        raise ValueError(
            f"`columns` must be at least one number from 0 to {width - 1}. Received: columns={chosen}."
        )
    return list(dict.fromkeys(chosen))
