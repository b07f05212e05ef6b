"""Plots of attention weights."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from keras_transformer._arguments import check_kind, check_several
from keras_transformer._files import as_path
from keras_transformer.types import Tensor
from keras_transformer.visualization.figures import (
    _finite_array,
    _label_axis,
    _label_inches,
    _new_figure,
    _saved_figure,
)

_MAX_COLUMNS = 4
_INCHES_PER_TOKEN = 0.28
_MIN_MAP_INCHES = 2.0  # for the axis labels
_MAX_PANEL_INCHES = 18.0
_MAX_INCHES = 48.0
_MAP_NAME = re.compile(r"(?P<side>encoder|decoder)/(?P<layer>[\w-]+)/(?P<kind>self|cross)_attention")


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
    """Plot attention weights as a heat map: a row per target token, a column per source token.

    Several heads are plotted next to each other with the same color scale.

    Args:
        scores: Attention weights `(t, s)`, or `(h, t, s)` for one map per head. Each row is a distribution
            over the source tokens.
        source_tokens: The `s` tokens that are attended to (keys), in any script.
        target_tokens: The `t` tokens that attend (queries).
        path: File to write; its suffix sets the format. Defaults to no file.
        title: Title of the figure.
        source_label: Label of the horizontal axis.
        target_label: Label of the vertical axis.

    Returns:
        The figure.

    Raises:
        InputError: If the file cannot be written.
        ValueError: If the shape of `scores` does not match the tokens, or a value is not finite.
    """
    check_kind(str, source_label=source_label, target_label=target_label)
    check_several(str, source_tokens=source_tokens, target_tokens=target_tokens)
    maps = _attention_maps("scores", scores, source_tokens, target_tokens)  # (h, t, s)
    num_columns = min(len(maps), _MAX_COLUMNS)
    num_rows = math.ceil(len(maps) / num_columns)
    vmax = float(maps.max()) or 1.0  # a map of zeros needs a scale too
    # Large enough to label every token, up to the maximum size.
    inches = [max(_INCHES_PER_TOKEN * len(each), _MIN_MAP_INCHES) for each in (source_tokens, target_tokens)]
    width = min(inches[0] + _label_inches(target_tokens) + 1.0, _MAX_PANEL_INCHES)
    height = min(inches[1] + _label_inches(source_tokens) + 1.0, _MAX_PANEL_INCHES)
    size = min(num_columns * width + 0.8, _MAX_INCHES), min(num_rows * height, _MAX_INCHES)
    figure = _new_figure(size, title)
    panels = list(figure.subplots(num_rows, num_columns, squeeze=False).flat)
    for head, (axes, weights) in enumerate(zip(panels, maps, strict=False), start=1):
        image = axes.imshow(weights, cmap="viridis", vmin=0, vmax=vmax, aspect="auto")
        axes.set_title(f"head {head}" if len(maps) > 1 else "")
        _label_axis(axes.xaxis, source_label, source_tokens, rotation=90)
        _label_axis(axes.yaxis, target_label, target_tokens)
    for axes in panels[len(maps) :]:
        axes.remove()
    figure.colorbar(image, ax=panels[: len(maps)], label="attention weight", aspect=30, pad=0.02)
    return _saved_figure(figure, path)


def _attention_maps(name: str, scores: Tensor, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """Return scores as an array `(h, t, s)`; raise ValueError if they do not match the tokens."""
    values = _finite_array(name, scores)
    maps = values[None] if values.ndim == 2 else values
    if maps.ndim != 3 or maps.shape[1:] != (len(target), len(source)) or not maps.size:
        raise ValueError(
            f"`{name}` must have the shape (target tokens, source tokens) or (heads, target tokens, source "
            f"tokens), none of them 0. Received: scores of shape {values.shape} for {len(target)} target "
            f"tokens and {len(source)} source tokens."
        )
    return maps


def plot_attention_maps(
    scores: Mapping[str, Tensor],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    directory: str | os.PathLike[str],
    *,
    output_tokens: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Plot all attention maps of a model, one file per map with all its heads.

    The encoder maps show source tokens on both axes. The decoder maps show target tokens as rows, and target
    tokens (self-attention) or source tokens (cross-attention) as columns. All shapes are checked before the
    first file is written.

    Args:
        scores: Attention weights of one pair `(h, t, s)` by name, such as `decoder/layer_1/cross_attention`,
            as `model.attention_scores` returns them.
        source_tokens: Tokens that the encoder reads.
        target_tokens: Tokens that the decoder reads, beginning with the start token.
        directory: Directory for the files `decoder_layer_1_cross_attention.png` and so on.
        output_tokens: Tokens that the decoder predicts at each position. If given, they label the rows of the
            decoder maps, so that a row shows what an output token attends to. Defaults to `target_tokens` as
            labels.
        progress: Called with 1 after each file.

    Returns:
        The paths, in the order of `scores`.

    Raises:
        InputError: If a file cannot be written.
        ValueError: If a name is unknown, or the shape of a map does not match the tokens.
    """
    source, target = (source_tokens, "source token"), (target_tokens, "target token, read")
    # A decoder row can be labeled with the token that is read, or with the token that is predicted there.
    decoder_rows = target if output_tokens is None else (output_tokens, "target token, written")
    titles, axes = {}, {}
    for name in scores:
        match = _MAP_NAME.fullmatch(name)
        if match is None or (match["side"], match["kind"]) == ("encoder", "cross"):
            raise ValueError(
                "`scores` must have names such as encoder/layer_1/self_attention, "
                "decoder/layer_1/self_attention or decoder/layer_1/cross_attention. "
                f"Received: {name!r}."
            )
        side, layer, kind = match["side"], match["layer"], match["kind"]
        titles[name] = f"{side.capitalize()}, {layer.replace('_', ' ')}, {kind}-attention"
        columns = source if side == "encoder" or kind == "cross" else target
        axes[name] = columns, source if side == "encoder" else decoder_rows
        _attention_maps(f"scores[{name!r}]", scores[name], *(tokens for tokens, _ in axes[name]))
    paths = []
    for name, ((keys, source_label), (queries, target_label)) in axes.items():
        paths.append(as_path(directory) / f"{name.replace('/', '_')}.png")
        labels = {"title": titles[name], "source_label": source_label, "target_label": target_label}
        plot_attention(scores[name], keys, queries, path=paths[-1], **labels)
        if progress is not None:
            progress(1)
    return paths
