"""`keras-transformer evaluate`."""

import dataclasses

import click

from keras_transformer.cli.options import model_options, open_model
from keras_transformer.cli.terminal import Verb, _show, progress_bar
from keras_transformer.data.sources import read_pairs
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.decoding.text_translator import TextTranslator
from keras_transformer.decoding.translator import Translator
from keras_transformer.errors import InputError
from keras_transformer.runs.run import score


@click.command(cls=Verb)
@model_options
@click.option("--pairs", help="dates, tfds:NAME or a .tsv or .tsv.gz file.")
@click.option("--split", default="test", show_default=True, help="Split of dates or of a TFDS dataset.")
@click.option("--source", type=click.Path(), help="File with a source text on each line, plain or .gz.")
@click.option("--target", type=click.Path(), help="File with the translation of each line of --source.")
@click.option(
    "--bleu-tokenize",
    default="13a",
    show_default=True,
    type=click.Choice(["13a", "none", "intl", "char"]),
    help="Tokenization of sacreBLEU; none for text that is tokenized already.",
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
    trust: bool,
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
    if (pairs is None) == (source is None) or (source is None) != (target is None):
        received = f"--pairs {pairs}, --source {source}, --target {target}"
        raise InputError(f"Give --pairs, or --source and --target. Received: {received}.")
    origin = str(pairs) if source is None or target is None else (source, target)
    # Before the model, which takes seconds to load: a wrong path is told at once.
    examples = read_pairs(origin, split, further_targets=unique)
    translator = open_model(model, saved_model, trust=trust)
    _change_search(translator, beam_size, length_penalty)
    report = score(
        translator,
        examples,
        batch_size=batch_size,
        tokenize=bleu_tokenize,
        unique=unique,
        progress=progress_bar,
    )
    _show(str(report))


def _change_search(translator: TextTranslator, beam_size: int | None, length_penalty: float | None) -> None:
    if beam_size is None and length_penalty is None:
        return
    if not isinstance(translator, Translator):
        received = f"--beam-size {beam_size}, --length-penalty {length_penalty}"
        raise InputError(f"An export searches as it was exported; name a --model. Received: {received}.")
    search = translator.search
    if not isinstance(search, BeamSearch | GreedySearch):
        raise InputError(f"The search must be greedy or a beam. Received: {type(search).__name__}.")
    if length_penalty is not None:
        search = dataclasses.replace(search, length_penalty=length_penalty)
    shared = {name: getattr(search, name) for name in ("length_penalty", "constraints", "special_ids")}
    # One hypothesis is greedy search, which costs less.
    if beam_size == 1:
        search = GreedySearch(**shared)
    elif beam_size is not None:
        beam = search if isinstance(search, BeamSearch) else BeamSearch(**shared)
        search = dataclasses.replace(beam, beam_size=beam_size)
    translator.search = search
