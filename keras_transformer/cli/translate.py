"""`keras-transformer translate`."""

import sys
from pathlib import Path
from typing import Any

import click

from keras_transformer.cli.models import model_options, open_model
from keras_transformer.cli.quiet import start_tensorflow
from keras_transformer.errors import InputError


@click.command()
@click.argument("texts", nargs=-1)
@model_options
@click.option("--input", "input_file", type=click.Path(), help="File with a text on each line, plain or .gz.")
@click.option("--scores", is_flag=True, help="Print the score and a tab before each answer.")
@click.option(
    "--n-best",
    type=click.IntRange(min=1),
    help="Print up to so many answers to each text, each after the number of the text and a tab.",
)
def translate(
    texts: tuple[str, ...],
    model: str | None,
    saved_model: str | None,
    batch_size: int,
    input_file: str | None,
    scores: bool,
    n_best: int | None,
) -> None:
    """Answer texts, one answer on each line.

    The texts are the arguments, the lines of --input, or the lines of standard input.

    \b
      keras-transformer translate --saved-model saved_models/dates "vendredi 3 mars 2023"
      keras-transformer translate --saved-model saved_models/dates < texts.txt > answers.txt
      keras-transformer translate --model runs/de_en --input test.de.gz
      keras-transformer translate --model runs/de_en --n-best 3 --scores "ein satz"
    """
    if texts and input_file is not None:
        raise InputError(f"Give texts or --input. Received: {len(texts)} texts and --input {input_file}.")
    start_tensorflow()
    lines = list(texts) or _lines(input_file)
    translator = open_model(model, saved_model)

    from keras_transformer.cli.progress import progress_bar

    with progress_bar(len(lines), "translating") as progress:
        options = {"batch_size": batch_size, "progress": progress}
        if n_best is None:
            answers = [[answer] for answer in translator.translate_with_scores(lines, **options)]
        else:
            answers = _n_best(translator, lines, n_best, options)
    for number, hypotheses in enumerate(answers, start=1):
        for answer in hypotheses:
            # An answer is one line, whatever it holds.
            text = " ".join(answer.text.splitlines())
            columns = [f"{answer.score:.4f}"] if scores else []
            click.echo("\t".join([*([] if n_best is None else [str(number)]), *columns, text]))


def _n_best(translator: Any, lines: list[str], num: int, options: dict[str, Any]) -> Any:
    try:
        return translator.n_best(lines, num, **options)
    except ValueError as error:  # more than the search keeps
        raise InputError(f"--n-best {num}: {error}") from error


def _lines(input_file: str | None) -> list[str]:
    if input_file is not None:
        from keras_transformer.data import read_lines

        return read_lines(Path(input_file))
    return [_decoded(line, number) for number, line in enumerate(sys.stdin.buffer, start=1)]


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        place = f"Standard input, line {number}: invalid UTF-8 at byte {error.start + 1}."
        raise InputError(place) from error
