"""All attention maps of a model, each as a picture of its own."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from keras_transformer.types import Tensor
from keras_transformer.visualization.attention import attention_maps, plot_attention

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
