"""Plots of masks and position encodings."""

import os
from collections.abc import Sequence

import numpy as np
from keras import ops
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from keras_transformer._arguments import check_kind, check_several
from keras_transformer.types import Tensor
from keras_transformer.visualization.figures import (
    _finite_array,
    _label_axis,
    _label_inches,
    _new_figure,
    _saved_figure,
)

_ALLOWED_COLOR = "#fde725"
_BLOCKED_COLOR = "#440154"
_GRID_COLOR = "#b0b0b0"
_INCHES_PER_CELL = 0.28
_MAX_INCHES = 24.0
_MIN_INCHES = 4.0  # needed by the legend
_LEGEND_COLUMNS = 6
_MAX_MARKERS = 100


def plot_mask(
    mask: Tensor,
    *,
    path: str | os.PathLike[str] | None = None,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    title: str = "Attention mask",
    query_label: str = "query",
    key_label: str = "key",
) -> Figure:
    """Plot a mask as cells of two colors: a row per query, a column per key.

    A padding mask `(b, s)` has a row per sequence.

    Args:
        mask: `(t, s)` or `(b, s)`; True (1) where the key may be attended to.
        path: File to write the figure to; its suffix sets the format. Defaults to None, no file.
        query_tokens: Labels of the `t` rows. Defaults to positions from 0.
        key_tokens: Labels of the `s` columns. Defaults to positions from 0.
        title: Title of the figure.
        query_label: Label of the vertical axis.
        key_label: Label of the horizontal axis.

    Returns:
        The figure.

    Raises:
        ValueError: If `mask` is not a matrix of True and False (1 and 0), or does not match the tokens.
        InputError: If the file cannot be written.

    Example:
        >>> figure = plot_mask([[True, False], [True, True]], query_tokens=["a", "b"])
        >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
        ['a', 'b']
    """
    check_kind(str, query_label=query_label, key_label=key_label)
    allowed = _cells(mask)  # (t, s)
    rows, columns = allowed.shape
    _check_tokens("query_tokens", query_tokens, rows, "row")
    _check_tokens("key_tokens", key_tokens, columns, "column")
    # Square cells with margins, up to a limit.
    cell = min(_INCHES_PER_CELL, _MAX_INCHES / max(rows, columns))
    width = max(cell * columns + _label_inches(query_tokens or ()) + 1.0, _MIN_INCHES)
    figure = _new_figure((width, cell * rows + _label_inches(key_tokens or ()) + 1.4), title)
    axes = figure.subplots()
    colors = ListedColormap([_BLOCKED_COLOR, _ALLOWED_COLOR])
    axes.imshow(allowed, cmap=colors, vmin=0, vmax=1, interpolation="nearest")
    axes.vlines(np.arange(columns - 1) + 0.5, -0.5, rows - 0.5, colors=_GRID_COLOR, linewidth=0.6)
    axes.hlines(np.arange(rows - 1) + 0.5, -0.5, columns - 0.5, colors=_GRID_COLOR, linewidth=0.6)
    _label_axis(axes.xaxis, key_label, key_tokens, rotation=90)
    _label_axis(axes.yaxis, query_label, query_tokens)
    meanings = ((_ALLOWED_COLOR, "may be attended to"), (_BLOCKED_COLOR, "may not"))
    patches = [Patch(facecolor=color, edgecolor=_GRID_COLOR, label=text) for color, text in meanings]
    figure.legend(handles=patches, loc="outside lower center", ncols=2)
    return _saved_figure(figure, path)


def _cells(mask: Tensor) -> np.ndarray:
    """Return the mask as booleans `(t, s)`."""
    values = np.asarray(ops.convert_to_numpy(mask))
    if values.ndim != 2 or not values.size:
        raise ValueError(
            "`mask` must have the shape (queries, keys) or (sequences, keys), none of them 0. "
            f"Received: mask of shape {values.shape}."
        )
    others = values[(values != 0) & (values != 1)]
    if others.size:
        raise ValueError(f"`mask` must hold True and False, or 1 and 0. Received: {others[0]!s} in mask.")
    return values.astype(bool)


def _check_tokens(name: str, tokens: Sequence[str] | None, size: int, cell: str) -> None:
    if tokens is not None:
        check_several(object, **{name: tokens})
    if tokens is not None and len(tokens) != size:
        raise ValueError(
            f"`{name}` must have a token for each {cell} of the mask. Received: {len(tokens)} tokens "
            f"for {size} {cell}s."
        )


def plot_position_encoding(
    encoding: Tensor, *, path: str | os.PathLike[str] | None = None, title: str = "Position encoding"
) -> Figure:
    """Plot a position encoding in three panels: as a map, as curves, and as similarities of positions.

    The curves, below the map, are the columns 0, `d/8`, `d/4` and `d/2`. The similarity is the dot product of
    the vectors of two positions; in a sinusoidal encoding it depends only on their distance.

    Args:
        encoding: `(t, d)`, one vector per position, sinusoidal or learned.
        path: File to write the figure to; its suffix sets the format. Defaults to None, no file.
        title: Title of the figure.

    Returns:
        The figure.

    Raises:
        ValueError: If `encoding` is not a matrix of finite numbers.
        InputError: If the file cannot be written.

    Example:
        >>> from keras_transformer.layers import sinusoidal_position_encoding
        >>> figure = plot_position_encoding(sinusoidal_position_encoding(50, 64))
        >>> [axes.get_xlabel() for axes in figure.axes[:2]]
        ['position', 'position']
    """
    values = _finite_array("encoding", encoding)  # (t, d)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            "`encoding` must have the shape (positions, width), none of them 0. "
            f"Received: encoding of shape {values.shape}."
        )
    figure = _new_figure((15.0, 7.0), title)
    grid = figure.add_gridspec(2, 2, width_ratios=(9, 6), height_ratios=(3, 2))
    heat = figure.add_subplot(grid[0, 0])
    curves = figure.add_subplot(grid[1, 0], sharex=heat)
    similarity = figure.add_subplot(grid[:, 1])
    # A column of the encoding is a row of the map; 0 is white.
    limit = float(np.abs(values).max()) or 1.0  # an encoding of zeros needs a scale, too
    # No smoothing, which would mix neighboring columns, a sine and a cosine.
    image = heat.imshow(
        values.T, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest"
    )
    heat.tick_params(labelbottom=True)
    heat.set_xlabel("position")
    _label_axis(heat.yaxis, "column of the encoding")
    figure.colorbar(image, ax=heat, label="value")
    # Markers make a single position visible; many markers would hide the curves.
    marker = "o" if len(values) <= _MAX_MARKERS else ""
    width = values.shape[1]
    # From the shortest waves to long ones; a narrow encoding has fewer than four curves.
    for column in dict.fromkeys((0, width // 8, width // 4, width // 2)):
        curves.plot(values[:, column], marker=marker, markersize=3, label=f"column {column}")
    curves.set_ylabel("value")
    curves.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)
    _label_axis(curves.xaxis, "position")
    products = values @ values.T  # (t, d) and (t, d) -> (t, t)
    image = similarity.imshow(products, cmap="viridis", interpolation="nearest")
    for axis in (similarity.xaxis, similarity.yaxis):
        _label_axis(axis, "position")
    figure.colorbar(image, ax=similarity, label="dot product", shrink=0.8)
    return _saved_figure(figure, path)
