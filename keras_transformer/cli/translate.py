"""`keras-transformer translate`."""

import sys
from pathlib import Path

import click

from keras_transformer.cli.models import model_options, open_model
from keras_transformer.cli.quiet import start_tensorflow
from keras_transformer.errors import InputError


@click.command()
@click.argument("texts", nargs=-1)
@model_options
@click.option("--input", "input_file", type=click.Path(), help="File with a text on each line, plain or .gz.")
@click.option("--scores", is_flag=True, help="Print the score and a tab before each answer.")
def translate(
    texts: tuple[str, ...],
    model: str | None,
    saved_model: str | None,
    batch_size: int,
    input_file: str | None,
    scores: bool,
) -> None:
    r"""Answer texts, one answer on each line.

    The texts are the arguments, the lines of --input, or the lines of standard input.

    \b
      keras-transformer translate "vendredi 3 mars 2023"
      keras-transformer translate --saved-model saved_models/dates < texts.txt > answers.txt
      keras-transformer translate --model runs/de_en --input test.de.gz
    """
    start_tensorflow()
    lines = list(texts) or _lines(input_file)
    translator = open_model(model, saved_model)

    from keras_transformer.cli.progress import progress_bar

    with progress_bar(len(lines), "translating") as progress:
        answers = translator.translate_with_scores(lines, batch_size=batch_size, progress=progress)
    for answer in answers:
        # An answer is one line, whatever it holds.
        text = " ".join(answer.text.splitlines())
        click.echo(f"{answer.score:.4f}\t{text}" if scores else text)


def _lines(input_file: str | None) -> list[str]:
    if input_file is not None:
        from keras_transformer.data import read_lines

        return read_lines(Path(input_file))
    return [_decoded(line, number) for number, line in enumerate(sys.stdin.buffer, start=1)]


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"Standard input, line {number}: invalid UTF-8 at byte {error.start + 1}."
        raise InputError(place) from error
