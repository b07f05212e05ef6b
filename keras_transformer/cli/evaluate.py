"""`keras-transformer evaluate`."""

from pathlib import Path
from typing import Any

import click

from keras_transformer.cli.options import (
    check_files,
    check_search,
    choose_model,
    model_options,
    search_options,
)
from keras_transformer.cli.terminal import Verb, _show, loading, progress_bar
from keras_transformer.errors import InputError


@click.command(cls=Verb)
@model_options
@click.option("--pairs", help="As for train: dates, tfds:NAME, a file, a directory.")
@click.option("--split", default="test", show_default=True, help="Split of dates or of a TFDS dataset.")
@click.option("--source", type=click.Path(), help="File with a source text on each line, plain or .gz.")
@click.option("--target", type=click.Path(), help="File with the translation of each line of --source.")
@click.option("--frames", type=click.Path(), help="As for train: a directory or file of frames.")
@click.option("--targets", type=click.Path(), help="Targets of --frames, unless they are in its file.")
@click.option("--texts", multiple=True, help="Of a model that continues texts: its texts, as for train.")
@click.option("--packed", is_flag=True, help="Read --texts one after the other, in pieces.")
@click.option(
    "--bleu-tokenize",
    default="13a",
    show_default=True,
    type=click.Choice(["13a", "none", "intl", "char"]),
    help="Tokenization of sacreBLEU; none for text that is tokenized already.",
)
@search_options
@click.option("--multi-label", is_flag=True, help="Of a classifier: texts have any number of labels.")
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
    frames: str | None,
    targets: str | None,
    texts: tuple[str, ...],
    packed: bool,
    bleu_tokenize: str,
    beam_size: int | None,
    length_penalty: float | None,
    multi_label: bool,
    unique: bool,
) -> None:
    """Score a model: BLEU, chrF, exact match and error rates, F1, or perplexity.

    \b
      keras-transformer evaluate --model runs/dates --pairs dates
      keras-transformer evaluate --saved-model saved_models/de_en --source test.de --target test.en
      keras-transformer evaluate --model runs/reviews --pairs test.csv
      keras-transformer evaluate --model runs/de_en --length-penalty 1.5 --source val.de --target val.en
      keras-transformer evaluate --model runs/tales --texts test.txt
    """
    if texts:
        if model is None:
            raise InputError(f"--texts are scored by a --model. Received: --texts {texts[0]}, no --model.")
        _show(_evaluate_texts(texts, model, packed=packed, split=split))
        return
    num_origins = sum(each is not None for each in (pairs, source, frames))
    if num_origins != 1 or (source is None) != (target is None) or (targets and not frames):
        received = f"--pairs {pairs}, --source {source}, --target {target}, --frames {frames}"
        raise InputError(f"Give --pairs, or --source and --target, or --frames. Received: {received}.")
    check_files(source, target, frames, targets)
    choice = choose_model(model, saved_model)
    check_search(choice, beam_size, length_penalty)
    with loading(choice.path):
        from keras_transformer import data, runs
        from keras_transformer.cli.models import change_search, is_classifier, open_classifier, open_model
        from keras_transformer.tasks import TextTagger
    origin = str(pairs) if source is None or target is None else (source, target)
    if frames is None and is_classifier(choice):
        labelled = data.read_labelled(origin, multi_label=multi_label)
        classifier = open_classifier(choice, trust=trust)
        found, _ = runs.score_labels(classifier, labelled, batch_size=batch_size, progress=progress_bar)
        _show(str(found))
        return
    if Path(choice.path, TextTagger.options_file).is_file():
        tagged = data.read_tagged(origin)
        # The tokens of a file are words as they stand.
        tagger = TextTagger.load(choice.path).with_changes(split_punctuation=False)
        found, _ = runs.score_tags(tagger, tagged, batch_size=batch_size, progress=progress_bar)
        _show(str(found))
        return
    # Before the model, which takes seconds to load: a wrong path is told at once.
    examples: list[Any]
    if frames is not None:
        examples = [*data.read_frame_pairs(frames, targets)]
    else:
        examples = [*data.read_pairs(origin, split, further_targets=unique)]
    reads = "text" if frames is None else "features"
    translator = open_model(choice, trust=trust, reads=reads)
    change_search(translator, beam_size, length_penalty)
    report = runs.score(
        translator,
        examples,
        batch_size=batch_size,
        tokenize=bleu_tokenize,
        unique=unique,
        progress=progress_bar,
    )
    _show(str(report))


def _evaluate_texts(texts: tuple[str, ...], model: str, *, packed: bool, split: str) -> str:
    with loading(model):
        from keras_transformer.data import read_texts
        from keras_transformer.evaluation import evaluate_texts
        from keras_transformer.tasks import TextGenerator, load_task
    given = read_texts(texts, split)
    task = load_task(model)
    if not isinstance(task, TextGenerator):
        raise InputError(f"--texts are for a model that continues texts. Received: a {type(task).__name__}.")
    return str(evaluate_texts(task, given, packed=packed))
