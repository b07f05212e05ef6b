"""`keras-transformer plot`."""

from pathlib import Path

import click
import numpy as np

from keras_transformer.cli.options import choose_model, model_flags
from keras_transformer.cli.terminal import Verb, _show, loading, progress_bar
from keras_transformer.errors import InputError
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS

# Larger pictures are not readable, and a mask grows with the square of its length.
_SIZE = click.IntRange(1, 4096)
_MASK_LENGTH = click.IntRange(1, 512)


@click.group()
def plot() -> None:
    """Draw attention maps, position encodings and masks as PNG pictures.

    Prints the paths of the pictures.

    \b
      keras-transformer plot attention --model runs/dates "27. jan. 2094"
      keras-transformer plot attention --saved-model saved_models/dates "27. jan. 2094"
      keras-transformer plot positions --hidden-dim 64 --length 50
      keras-transformer plot mask --length 6
    """


@plot.command(cls=Verb)
@click.argument("text")
@model_flags
@click.option(
    "--output", type=click.Path(), default="attention", show_default=True, help="Directory of the pictures."
)
def attention(text: str, model: str | None, saved_model: str | None, trust: bool, output: str) -> None:
    """Draw the attention maps of the best output for TEXT: one PNG per layer, with all heads.

    An export has only one map: the last decoder layer, averaged over its heads.

    \b
      keras-transformer plot attention --model runs/dates "27. jan. 2094"
      keras-transformer plot attention --saved-model saved_models/dates "27. jan. 2094"
    """
    if not text.strip():
        raise _empty(text)
    choice = choose_model(model, saved_model)
    with loading(choice.path):
        from keras_transformer.cli.models import open_model
        from keras_transformer.tasks import TextTask, Translator
        from keras_transformer.visualization import plot_attention, plot_attention_maps
    translator = open_model(choice, TextTask, trust=trust)
    if not isinstance(translator, Translator):
        [alignment] = translator.align([text])
        if not alignment.source_tokens:
            raise _empty(text)
        path, title = Path(output, "cross_attention.png"), "Cross-attention, last decoder layer, mean"
        tokens = alignment.source_tokens, alignment.output_tokens
        plot_attention(alignment.attention, *tokens, path=path, title=title)
        _show(str(path))
        return
    alignment, maps = translator.attention_maps(text)
    with progress_bar(len(maps), "drawing") as progress:
        paths = plot_attention_maps(
            maps,
            alignment.source_tokens,
            [SPECIAL_TOKENS[SPECIAL_IDS.start], *alignment.output_tokens[:-1]],
            output,
            output_tokens=alignment.output_tokens,
            progress=progress,
        )
    for path in paths:
        _show(str(path))


def _empty(text: str) -> InputError:
    return InputError(f"Give a text that is not empty. Received: {text!r}.")


@plot.command(cls=Verb)
@click.option(
    "--hidden-dim", type=_SIZE, default=64, show_default=True, help="Width of the model (hidden_dim)."
)
@click.option("--length", type=_SIZE, default=50, show_default=True, help="Number of positions.")
@click.option("--output", type=click.Path(), default="positions.png", show_default=True, help="PNG to write.")
def positions(hidden_dim: int, length: int, output: str) -> None:
    """Draw the sinusoidal position encoding as a heat map and as curves, and the similarity of positions.

    \b
      keras-transformer plot positions --hidden-dim 64 --length 50 --output positions.png
    """
    with loading():
        from keras_transformer.layers import sinusoidal_position_encoding
        from keras_transformer.visualization import plot_position_encoding
    title = f"Sinusoidal position encoding, {length} positions, width {hidden_dim}"
    plot_position_encoding(sinusoidal_position_encoding(length, hidden_dim), path=output, title=title)
    _show(str(Path(output)))


@plot.command(cls=Verb)
@click.option("--length", type=_MASK_LENGTH, default=6, show_default=True, help="Sequence length in tokens.")
@click.option(
    "--padding",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Number of padding tokens at the end.",
)
@click.option("--output", type=click.Path(), default="mask.png", show_default=True, help="PNG to write.")
def mask(length: int, padding: int, output: str) -> None:
    """Draw the self-attention mask of the decoder: causal mask and padding mask combined.

    \b
      keras-transformer plot mask --length 6 --output mask.png
      keras-transformer plot mask --length 6 --padding 2
    """
    if padding >= length:
        raise InputError(f"--padding must be below --length. Received: {padding} of {length}.")
    with loading():
        from keras_transformer.layers import causal_mask, combine_masks
        from keras_transformer.visualization import plot_mask
    tokens = np.arange(length)[None] < length - padding  # (1, s)
    combined = combine_masks(causal_mask=causal_mask(length, length), padding_mask=tokens)
    title = f"Causal mask, the last {padding} are padding" if padding else "Causal mask"
    # (1, 1, t, s) -> (t, s)
    plot_mask(np.asarray(combined)[0, 0], path=output, title=title)
    _show(str(Path(output)))
