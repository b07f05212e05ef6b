"""Attention maps: how much each target token looks at each source token."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from keras import ops
from matplotlib.figure import Figure

from keras_transformer.types import Tensor
from keras_transformer.visualization.token_labels import (
    label_inches,
    save_figure,
    set_token_labels,
    show_any_script,
)

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


_NAME = re.compile(r"(?P<side>encoder|decoder)/(?P<layer>[\w-]+)/(?P<kind>self|cross)_attention")
_SOURCE, _READ, _WRITTEN = "source token", "target token, read", "target token, written"


def plot_attention_maps(
    scores: Mapping[str, Tensor],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    directory: str | os.PathLike[str],
    *,
    output_tokens: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Write a picture of every attention map of a model: of each layer, with all heads.

    The name says which tokens belong to the axes: in the encoder, source looks at source; in the
    decoder, target looks at target (self-attention) or at source (cross-attention). No picture is
    written unless all maps fit the tokens.

    Args:
        scores: what `model.attention_scores` gives for one pair: `(h, t, s)` by names such as
            `decoder/layer_1/cross_attention`.
        source_tokens: the tokens that the encoder reads.
        target_tokens: the tokens that the decoder reads, the start token first.
        directory: where the pictures go, `decoder_layer_1_cross_attention.png` and so on.
        output_tokens: the tokens that the decoder writes after each token that it reads. They are
            the labels of the decoder's rows, if given: a row then shows where a token came from.
        progress: called after each picture with 1.

    Returns:
        The paths, in the order of `scores`.

    Raises:
        ValueError: a name is unknown, or a map does not have the shape that the tokens ask for.
        InputError: a picture cannot be written.
    """
    queries = (target_tokens, _READ) if output_tokens is None else (output_tokens, _WRITTEN)
    if len(queries[0]) != len(target_tokens):
        raise ValueError(
            "`output_tokens` must have a token for each of `target_tokens`. Received: "
            f"{len(queries[0])} output tokens, {len(target_tokens)} target tokens."
        )
    source, target = (source_tokens, _SOURCE), (target_tokens, _READ)
    axes = {name: _axes(_parts(name), source, target, queries) for name in scores}
    for name, (columns, rows) in axes.items():
        attention_maps(scores[name], len(columns[0]), len(rows[0]), name=f"scores[{name!r}]")
    paths = []
    for name, (columns, rows) in axes.items():
        paths.append(Path(directory) / f"{name.replace('/', '_')}.png")
        plot_attention(
            scores[name],
            columns[0],
            rows[0],
            path=paths[-1],
            title=_title(_parts(name)),
            source_label=columns[1],
            target_label=rows[1],
        )
        if progress is not None:
            progress(1)
    return paths


_Labels = tuple[Sequence[str], str]


def _axes(
    parts: tuple[str, str, str], source: _Labels, target: _Labels, queries: _Labels
) -> tuple[_Labels, _Labels]:
    """Return the labels of columns and rows, each with the name of its axis."""
    side, _, kind = parts
    if side == "encoder":
        return source, source
    return (source if kind == "cross" else target), queries


def _parts(name: str) -> tuple[str, str, str]:
    """Split the name of a map into side, layer and kind."""
    match = _NAME.fullmatch(name)
    if match is None or (match["side"], match["kind"]) == ("encoder", "cross"):
        raise ValueError(
            "`scores` must have names such as encoder/layer_1/self_attention, decoder/layer_1/self_attention "
            f"or decoder/layer_1/cross_attention. Received: {name!r}."
        )
    return match["side"], match["layer"], match["kind"]


def _title(parts: tuple[str, str, str]) -> str:
    side, layer, kind = parts
    return f"{side.capitalize()}, {layer.replace('_', ' ')}, {kind}-attention"
