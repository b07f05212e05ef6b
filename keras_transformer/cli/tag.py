"""`keras-transformer tag`."""

import click

from keras_transformer.cli.options import check_texts, choose_model, given_texts, model_options
from keras_transformer.cli.terminal import Verb, _show, loading, progress_bar


@click.command(cls=Verb)
@click.argument("texts", nargs=-1)
@model_options
@click.option("--input", "input_file", type=click.Path(), help="File with one text per line, plain or .gz.")
@click.option(
    "--spans",
    is_flag=True,
    help="Print one line per span of BIO tags (such as a name) instead: text number (from 1), label, start "
    "(character offset from 0), end (exclusive), words; separated by tabs.",
)
def tag(
    texts: tuple[str, ...],
    model: str | None,
    saved_model: str | None,
    batch_size: int,
    trust: bool,
    input_file: str | None,
    spans: bool,
) -> None:
    """Tag each word of texts (token classification, such as named entities).

    Give the texts as arguments, with --input, or on standard input (one text per line). The output is
    in CoNLL format: a word, a tab and its tag per line, and an empty line between texts.

    \b
      keras-transformer tag --model runs/names "Anna lives in New York."
      keras-transformer tag --saved-model saved_models/names --spans < texts.txt
    """
    check_texts(texts, input_file)
    choice = choose_model(model, saved_model)
    with loading(choice.path):
        from keras_transformer._backend import quick_start
        from keras_transformer.cli.models import open_model
        from keras_transformer.tasks import Tagger
    lines = given_texts(texts, input_file)
    tagger = open_model(choice, Tagger, trust=trust)
    with quick_start(len(lines)), progress_bar(len(lines), "tagging") as progress:
        outputs = tagger.tag(lines, batch_size=batch_size, progress=progress)
    for number, (text, output) in enumerate(zip(lines, outputs, strict=True), start=1):
        if spans:
            for span in output.spans:
                words = " ".join(text[span.start : span.end].split())
                _show(f"{number}\t{span.label}\t{span.start}\t{span.end}\t{words}")
            continue
        if number > 1:
            _show("")
        for token, name in zip(output.tokens, output.tags, strict=True):
            _show(f"{token}\t{name}")
