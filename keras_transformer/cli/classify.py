"""`keras-transformer classify`."""

import click

from keras_transformer.cli.options import check_texts, choose_model, given_texts, model_options
from keras_transformer.cli.terminal import Verb, _show, loading, progress_bar


@click.command(cls=Verb)
@click.argument("texts", nargs=-1)
@model_options
@click.option("--input", "input_file", type=click.Path(), help="File with one text per line, plain or .gz.")
@click.option(
    "--scores",
    is_flag=True,
    help="Begin each line with the probability of the most probable label and a tab.",
)
def classify(
    texts: tuple[str, ...],
    model: str | None,
    saved_model: str | None,
    batch_size: int,
    trust: bool,
    input_file: str | None,
    scores: bool,
) -> None:
    """Classify texts.

    Give the texts as arguments, with --input, or on standard input (one text per line). The output is
    one line per text: its label, or its labels, separated by |. An empty text has no label.

    \b
      keras-transformer classify --model runs/reviews "a waste of time"
      keras-transformer classify --saved-model saved_models/reviews --scores < texts.txt
    """
    check_texts(texts, input_file)
    choice = choose_model(model, saved_model)
    with loading(choice.path):
        from keras_transformer._backend import quick_start
        from keras_transformer.cli.models import open_model
        from keras_transformer.tasks import Classifier
    lines = given_texts(texts, input_file)
    classifier = open_model(choice, Classifier, trust=trust)
    with quick_start(len(lines)), progress_bar(len(lines), "classifying") as progress:
        outputs = classifier.classify(lines, batch_size=batch_size, progress=progress)
    for output in outputs:
        columns = [f"{output.probability:.4f}"] if scores else []
        _show("\t".join([*columns, "|".join(output.labels)]))
