"""Position encodings: the vector of each position, and single columns of it as curves."""

import os

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from keras_transformer.types import Tensor
from keras_transformer.visualization.figures import finite_array, label_axis, new_figure, saved_figure

_LEGEND_COLUMNS = 6
_MAX_MARKERS = 100


def plot_position_encoding(
    encoding: Tensor,
    *,
    path: str | os.PathLike[str] | None = None,
    title: str = "Position encoding",
) -> Figure:
    """Draw a position encoding as a map, and its columns 0, `d/8`, `d/4` and `d/2` as curves below it.

    Both panels have the position from left to right.

    Args:
        encoding: `(t, d)`, a vector for each position, computed or learned.
        path: the file to write the picture to, if any; its suffix names the format.
        title: the title of the picture.

    Returns:
        The figure.

    Raises:
        ValueError: `encoding` is not a matrix of finite numbers.
        InputError: the picture cannot be written.

    Example:
        >>> from keras_transformer.layers.position_encoding import sinusoidal_position_encoding
        >>> figure = plot_position_encoding(sinusoidal_position_encoding(50, 64))
        >>> [axes.get_xlabel() for axes in figure.axes[:2]]
        ['position', 'position']
    """
    values = finite_array("encoding", encoding)  # (t, d)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            "`encoding` must have the shape (positions, width), none of them 0. "
            f"Received: encoding of shape {values.shape}."
        )
    figure = new_figure((9.0, 7.0), title)
    heat, curves = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_map(figure, heat, values)
    # Points show a single position, which has no line; many would hide the curves.
    marker = "o" if len(values) <= _MAX_MARKERS else ""
    width = values.shape[1]
    # From the shortest waves to long ones; narrow encodings have fewer than four.
    for column in dict.fromkeys((0, width // 8, width // 4, width // 2)):
        curves.plot(values[:, column], marker=marker, markersize=3, label=f"column {column}")
    curves.set_ylabel("value")
    curves.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)
    label_axis(curves.xaxis, "position")
    return saved_figure(figure, path)


def _draw_map(figure: Figure, axes: Axes, values: np.ndarray) -> None:
    """Draw `(t, d)` with a column of the encoding as a row, white where it is 0."""
    limit = float(np.abs(values).max()) or 1.0  # an encoding of zeros has a scale, too
    # Not smoothed: neighboring columns, a sine and a cosine, would be mixed.
    image = axes.imshow(
        values.T, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    axes.tick_params(labelbottom=True)
    axes.set_xlabel("position")
    label_axis(axes.yaxis, "column of the encoding")
    figure.colorbar(image, ax=axes, label="value")
