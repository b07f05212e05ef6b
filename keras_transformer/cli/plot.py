"""`keras-transformer plot`."""

from pathlib import Path

import click

from keras_transformer.cli.quiet import start_tensorflow
from keras_transformer.errors import InputError

# A picture has no room for more, and a mask grows with the square.
_SIZE = click.IntRange(1, 4096)
_MASK_LENGTH = click.IntRange(1, 512)


@click.group()
def plot() -> None:
    """Draw attention maps, position encodings and masks; prints the paths of the pictures.

    \b
      keras-transformer plot attention --model runs/dates "27. jan. 2094"
      keras-transformer plot positions --hidden-dim 64 --length 50
      keras-transformer plot mask --length 6
    """


@plot.command()
@click.argument("text")
@click.option("--model", type=click.Path(), required=True, help="Directory that train wrote.")
@click.option(
    "--output", type=click.Path(), default="attention", show_default=True, help="Directory of the pictures."
)
def attention(text: str, model: str, output: str) -> None:
    """Draw every attention map of the best answer to TEXT, each layer as a PNG with all heads.

    \b
      keras-transformer plot attention --model runs/dates "27. jan. 2094"
    """
    if not text:
        raise InputError(f"Give a text that is not empty. Received: {text!r}.")
    start_tensorflow()
    from keras_transformer.cli.progress import progress_bar
    from keras_transformer.decoding import Translator
    from keras_transformer.runs.train import answer_attention
    from keras_transformer.visualization import plot_attention_maps

    found = answer_attention(Translator.load(model), text)
    with progress_bar(len(found.scores), "drawing") as progress:
        paths = plot_attention_maps(
            found.scores,
            found.source_tokens,
            found.target_tokens,
            output,
            output_tokens=found.output_tokens,
            progress=progress,
        )
    for path in paths:
        click.echo(str(path))


@plot.command()
@click.option("--hidden-dim", type=_SIZE, default=64, show_default=True, help="Width of the model.")
@click.option("--length", type=_SIZE, default=50, show_default=True, help="Positions.")
@click.option("--output", type=click.Path(), default="positions.png", show_default=True, help="The picture.")
def positions(hidden_dim: int, length: int, output: str) -> None:
    """Draw the sinusoidal position encoding as a map, and some of its columns as curves.

    \b
      keras-transformer plot positions --hidden-dim 64 --length 50 --output positions.png
    """
    start_tensorflow()
    from keras_transformer.layers.position_encoding import sinusoidal_position_encoding
    from keras_transformer.visualization import plot_position_encoding

    title = f"Sinusoidal position encoding, {length} positions, width {hidden_dim}"
    plot_position_encoding(sinusoidal_position_encoding(length, hidden_dim), path=output, title=title)
    click.echo(str(Path(output)))


@plot.command()
@click.option("--length", type=_MASK_LENGTH, default=6, show_default=True, help="Tokens of the sequence.")
@click.option("--padding", type=click.IntRange(0), default=0, show_default=True, help="Of these are padding.")
@click.option("--output", type=click.Path(), default="mask.png", show_default=True, help="The picture.")
def mask(length: int, padding: int, output: str) -> None:
    """Draw the mask of the decoder's self-attention: causal, and no key that is padding.

    \b
      keras-transformer plot mask --length 6 --output mask.png
      keras-transformer plot mask --length 6 --padding 2
    """
    if padding >= length:
        raise InputError(f"--padding must be below --length. Received: {padding} of {length}.")
    start_tensorflow()
    import numpy as np

    from keras_transformer.layers.masks import causal_mask, combine_masks
    from keras_transformer.visualization import plot_mask

    tokens = np.arange(length)[None] < length - padding  # (1, s)
    combined = combine_masks(causal_mask=causal_mask(length, length), padding_mask=tokens)
    title = f"Causal mask, the last {padding} are padding" if padding else "Causal mask"
    plot_mask(np.asarray(combined)[0, 0], path=output, title=title)
    click.echo(str(Path(output)))
