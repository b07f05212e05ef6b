"""`keras-transformer evaluate`."""

import click

from keras_transformer.cli.models import change_search, model_options, open_model
from keras_transformer.cli.quiet import start_tensorflow
from keras_transformer.errors import InputError
from keras_transformer.runs.config import BLEU_TOKENIZATIONS


@click.command()
@model_options
@click.option("--pairs", help="dates, tfds:NAME or a .tsv or .tsv.gz file.")
@click.option("--split", default="test", show_default=True, help="Split of dates or of a TFDS dataset.")
@click.option("--source", type=click.Path(), help="File with a source text on each line, plain or .gz.")
@click.option("--target", type=click.Path(), help="File with the answer to each line of --source.")
@click.option(
    "--bleu-tokenize",
    default="13a",
    show_default=True,
    type=click.Choice(BLEU_TOKENIZATIONS),
    help="sacreBLEU's tokenization; none for text that is tokenized already.",
)
@click.option(
    "--beam-size",
    type=click.IntRange(min=1),
    help="Another number of hypotheses than the model's; 1 is greedy.",
)
@click.option(
    "--length-penalty",
    type=click.FloatRange(min=0),
    help="Another exponent of the length than the model's, to choose one on validation pairs.",
)
@click.option("--unique", is_flag=True, help="Count a source once; any of its targets, or columns, is right.")
def evaluate(
    model: str | None,
    saved_model: str | None,
    batch_size: int,
    pairs: str | None,
    split: str,
    source: str | None,
    target: str | None,
    bleu_tokenize: str,
    beam_size: int | None,
    length_penalty: float | None,
    unique: bool,
) -> None:
    """Score a model: BLEU, chrF, exact match and error rates.

    \b
      keras-transformer evaluate --model runs/dates --pairs dates
      keras-transformer evaluate --saved-model saved_models/de_en --source test.de --target test.en
      keras-transformer evaluate --model runs/de_en --length-penalty 1.5 --source val.de --target val.en
    """
    start_tensorflow()
    examples = _pairs(pairs, split, source, target, unique=unique)
    translator = open_model(model, saved_model)
    change_search(translator, beam_size, length_penalty)

    from keras_transformer.runs.train import score

    score(translator, examples, batch_size=batch_size, tokenize=bleu_tokenize, unique=unique)


def _pairs(
    pairs: str | None, split: str, source: str | None, target: str | None, *, unique: bool
) -> list[tuple[str, str]]:
    if (pairs is None) == (source is None) or (source is None) != (target is None):
        raise InputError(
            "Give --pairs, or --source and --target. "
            f"Received: --pairs {pairs}, --source {source}, --target {target}."
        )
    from keras_transformer.data import read_pairs

    origin = str(pairs) if source is None or target is None else (source, target)
    return read_pairs(origin, split, further_targets=unique)
