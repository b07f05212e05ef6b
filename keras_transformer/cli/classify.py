"""`keras-transformer classify`."""

import sys
from pathlib import Path

import click

from keras_transformer.cli.options import model_options
from keras_transformer.cli.terminal import Verb, _show, progress_bar
from keras_transformer.data.text_files import read_lines
from keras_transformer.errors import InputError
from keras_transformer.export import ServedClassifier, served_kind
from keras_transformer.tasks import Classifier, TextClassifier


@click.command(cls=Verb)
@click.argument("texts", nargs=-1)
@model_options
@click.option("--input", "input_file", type=click.Path(), help="File with a text on each line, plain or .gz.")
@click.option("--scores", is_flag=True, help="Print the probability and a tab before each label.")
def classify(
    texts: tuple[str, ...],
    model: str | None,
    saved_model: str | None,
    batch_size: int,
    trust: bool,
    input_file: str | None,
    scores: bool,
) -> None:
    """Give texts labels, one line for each text.

    The texts are the arguments, the lines of --input, or the lines of standard input. Where a text
    may have several labels, they have | between them. An empty line has an empty label.

    \b
      keras-transformer classify --model runs/reviews "a waste of time"
      keras-transformer classify --saved-model saved_models/reviews --scores < texts.txt
    """
    if texts and input_file is not None:
        raise InputError(f"Give texts or --input. Received: {len(texts)} texts and --input {input_file}.")
    lines = list(texts) or read_lines(sys.stdin.buffer if input_file is None else input_file)
    classifier = open_classifier(model, saved_model, trust=trust)
    with progress_bar(len(lines), "classifying") as progress:
        outputs = classifier.classify(lines, batch_size=batch_size, progress=progress)
    for output in outputs:
        columns = [f"{output.probability:.4f}"] if scores else []
        _show("\t".join([*columns, "|".join(output.labels)]))


def open_classifier(model: str | None, saved_model: str | None, *, trust: bool = False) -> Classifier:
    """Load the trained classifier or the export that is named; raise InputError if it is not clear which."""
    if (model is None) == (saved_model is None):
        raise InputError(f"Give --model or --saved-model. Received: {model} and {saved_model}.")
    if model is not None:
        return TextClassifier.load(model)
    return ServedClassifier(str(saved_model), trust=trust)


def is_classifier(model: str | None, saved_model: str | None) -> bool:
    """Return whether a trained model or an export gives labels; both are not loaded."""
    if model is not None:
        return Path(model, TextClassifier.options_file).is_file()
    return saved_model is not None and served_kind(saved_model) is ServedClassifier
