"""`keras-transformer plot`."""

from pathlib import Path

import click
import numpy as np
from keras import ops

from keras_transformer.cli.terminal import Verb, _show, progress_bar
from keras_transformer.decoding.translator import Translator
from keras_transformer.errors import InputError
from keras_transformer.layers.masks import causal_mask, combine_masks
from keras_transformer.layers.position_encoding import sinusoidal_position_encoding
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS
from keras_transformer.visualization.attention import plot_attention_maps
from keras_transformer.visualization.matrices import plot_mask, plot_position_encoding

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


@plot.command(cls=Verb)
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
    translator = Translator.load(model)
    padded_ids = translator.source_tokenizer.padded_ids([text], translator.max_source_length)
    source_ids = ops.convert_to_numpy(padded_ids)
    # (1, n, T) -> (1, T), the best of n
    output_ids = ops.convert_to_numpy(translator.generate(source_ids).token_ids)[:1, 0]
    length = np.count_nonzero(output_ids != SPECIAL_IDS.pad)
    decoder_ids = np.insert(output_ids[:, : length - 1], 0, SPECIAL_IDS.start, axis=1)  # (1, t)
    inputs = {"encoder_token_ids": source_ids, "decoder_token_ids": decoder_ids}
    maps = translator.model.attention_scores(inputs)
    with progress_bar(len(maps), "drawing") as progress:
        paths = plot_attention_maps(
            # (1, h, t, s) -> (h, t, s)
            {name: ops.convert_to_numpy(scores)[0] for name, scores in maps.items()},
            _tokens(translator.source_tokenizer, source_ids),
            _tokens(translator.target_tokenizer, decoder_ids),
            output,
            output_tokens=_tokens(translator.target_tokenizer, output_ids[:, :length]),
            progress=progress,
        )
    for path in paths:
        _show(str(path))


def _tokens(tokenizer: Tokenizer, token_ids: np.ndarray) -> list[str]:
    return [token.decode() for token in tokenizer.tokens(token_ids).numpy()[0]]


@plot.command(cls=Verb)
@click.option("--hidden-dim", type=_SIZE, default=64, show_default=True, help="Width of the model.")
@click.option("--length", type=_SIZE, default=50, show_default=True, help="Positions.")
@click.option("--output", type=click.Path(), default="positions.png", show_default=True, help="The picture.")
def positions(hidden_dim: int, length: int, output: str) -> None:
    """Draw the sinusoidal position encoding as a map, and some of its columns as curves.

    \b
      keras-transformer plot positions --hidden-dim 64 --length 50 --output positions.png
    """
    title = f"Sinusoidal position encoding, {length} positions, width {hidden_dim}"
    plot_position_encoding(sinusoidal_position_encoding(length, hidden_dim), path=output, title=title)
    _show(str(Path(output)))


@plot.command(cls=Verb)
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
    tokens = np.arange(length)[None] < length - padding  # (1, s)
    combined = combine_masks(causal_mask=causal_mask(length, length), padding_mask=tokens)
    title = f"Causal mask, the last {padding} are padding" if padding else "Causal mask"
    # (1, 1, t, s) -> (t, s)
    plot_mask(np.asarray(combined)[0, 0], path=output, title=title)
    _show(str(Path(output)))
