"""Attention maps: how much each target token looks at each source token."""

import math
import os
from collections.abc import Sequence

import numpy as np
from keras import ops
from matplotlib.figure import Figure

from keras_transformer.types import Tensor
from keras_transformer.visualization.figure_file import save_figure
from keras_transformer.visualization.token_labels import label_inches, set_token_labels, show_any_script

MAX_COLUMNS = 4
_INCHES_PER_TOKEN = 0.28
_MIN_MAP_INCHES = 2.0  # the names of the axes need as much
_MAX_PANEL_INCHES = 18.0
_MAX_INCHES = 48.0


def plot_attention(
    scores: Tensor,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    path: str | os.PathLike[str] | None = None,
    title: str = "Cross-attention",
    source_label: str = "source token",
    target_label: str = "target token",
) -> Figure:
    """Draw attention scores as a map: a row for each target token, a column for each source token.

    Several heads are drawn side by side with one scale of color.

    Args:
        scores: `(t, s)`, or `(h, t, s)` for a map of each head; each row is a distribution.
        source_tokens: the `s` tokens that are looked at, in any script.
        target_tokens: the `t` tokens that look.
        path: where to write the picture; it is not written without one.
        title: what stands above it.
        source_label: the name of the horizontal axis.
        target_label: the name of the vertical axis.

    Returns:
        The figure.

    Raises:
        ValueError: `scores` do not have the shape that the tokens ask for, or are not finite.
        InputError: the picture cannot be written.
    """
    maps = attention_maps(scores, len(source_tokens), len(target_tokens))  # (h, t, s)
    num_columns = min(len(maps), MAX_COLUMNS)
    num_rows = math.ceil(len(maps) / num_columns)
    vmax = float(maps.max()) or 1.0  # a map of zeros has a scale, too
    figure = Figure(_size(source_tokens, target_tokens, num_rows, num_columns), layout="constrained")
    show_any_script(figure.suptitle(title))
    panels = list(figure.subplots(num_rows, num_columns, squeeze=False).flat)
    for head, (axes, weights) in enumerate(zip(panels, maps, strict=False), start=1):
        image = axes.imshow(weights, cmap="viridis", vmin=0, vmax=vmax, aspect="auto")
        axes.set(xlabel=source_label, ylabel=target_label, title=f"head {head}" if len(maps) > 1 else "")
        show_any_script(axes.xaxis.label)
        show_any_script(axes.yaxis.label)
        set_token_labels(axes.xaxis, source_tokens, rotation=90)
        set_token_labels(axes.yaxis, target_tokens)
    for axes in panels[len(maps) :]:
        axes.remove()
    figure.colorbar(image, ax=panels[: len(maps)], label="attention weight", aspect=30, pad=0.02)
    if path is not None:
        save_figure(figure, path)
    return figure


def attention_maps(
    scores: Tensor, source_length: int, target_length: int, *, name: str = "scores"
) -> np.ndarray:
    """Check attention scores and make them an array; a map without heads becomes one of one head.

    Args:
        scores: `(t, s)` or `(h, t, s)`.
        source_length: `s`.
        target_length: `t`.
        name: what messages call the scores.

    Returns:
        float32 `(h, t, s)`.

    Raises:
        ValueError: the shape is another, or a number is not finite.
    """
    values = np.asarray(ops.convert_to_numpy(scores), dtype="float32")
    maps = values[None] if values.ndim == 2 else values
    if maps.ndim != 3 or maps.shape[1:] != (target_length, source_length) or not maps.size:
        raise ValueError(
            f"`{name}` must have the shape (target tokens, source tokens) or (heads, target tokens, source "
            f"tokens), none of them 0. Received: scores of shape {values.shape} for {target_length} target "
            f"tokens and {source_length} source tokens."
        )
    if not np.isfinite(maps).all():
        raise ValueError(
            f"`{name}` must be finite. Received: {np.count_nonzero(~np.isfinite(maps))} NaN or inf."
        )
    return maps


def _size(source: Sequence[str], target: Sequence[str], rows: int, columns: int) -> tuple[float, float]:
    """Return width and height in inches: room for every token, within reason."""
    width = max(_INCHES_PER_TOKEN * len(source), _MIN_MAP_INCHES) + label_inches(target) + 1.0
    height = max(_INCHES_PER_TOKEN * len(target), _MIN_MAP_INCHES) + label_inches(source) + 1.0
    return min(columns * min(width, _MAX_PANEL_INCHES) + 0.8, _MAX_INCHES), min(
        rows * min(height, _MAX_PANEL_INCHES), _MAX_INCHES
    )
