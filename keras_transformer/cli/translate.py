"""`keras-transformer translate`."""

from typing import Any

import click

from keras_transformer.cli.options import (
    check_files,
    check_search,
    choose_model,
    given_texts,
    model_options,
    search_options,
)
from keras_transformer.cli.terminal import Verb, _show, loading, progress_bar
from keras_transformer.errors import InputError


@click.command(cls=Verb)
@click.argument("texts", nargs=-1)
@model_options
@search_options
@click.option("--input", "input_file", type=click.Path(), help="File with one text per line, plain or .gz.")
@click.option(
    "--frames",
    type=click.Path(),
    help="Frames: a directory of .npy files, or a .npy, .npz or .tfrecord file.",
)
@click.option("--scores", is_flag=True, help="Print the score before each output, separated by a tab.")
@click.option(
    "--n-best",
    type=click.IntRange(min=1),
    help="Print up to this many outputs per text (at most the beam size). Each line begins with the number "
    "of its text and a tab.",
)
def translate(
    texts: tuple[str, ...],
    model: str | None,
    saved_model: str | None,
    batch_size: int,
    trust: bool,
    beam_size: int | None,
    length_penalty: float | None,
    input_file: str | None,
    frames: str | None,
    scores: bool,
    n_best: int | None,
) -> None:
    """Translate texts.

    Give the texts as arguments, with --input, or on standard input (one text per line). A model that reads
    frames needs --frames. The output is one line per text.

    \b
      keras-transformer translate --saved-model saved_models/dates "vendredi 3 mars 2023"
      keras-transformer translate --saved-model saved_models/dates < texts.txt > outputs.txt
      keras-transformer translate --model runs/en_de --input test.en
      keras-transformer translate --model runs/en_de --beam-size 8 --n-best 3 --scores "a sentence"
    """
    if bool(texts) + (input_file is not None) + (frames is not None) > 1:
        flags = {"--input": input_file, "--frames": frames}
        received = [f"{len(texts)} texts", *(f"{flag} {path}" for flag, path in flags.items() if path)]
        raise InputError(f"Give texts, --input or --frames. Received: {', '.join(received)}.")
    check_files(input_file, frames)
    choice = choose_model(model, saved_model)
    check_search(choice, beam_size, length_penalty)
    with loading(choice.path):
        from keras_transformer._backend import quick_start
        from keras_transformer.cli.models import change_search, open_model
        from keras_transformer.data import read_frames
        from keras_transformer.tasks import TextTask
    lines: list[Any] = [*given_texts(texts, input_file)] if frames is None else [*read_frames(frames)]
    reads = "text" if frames is None else "features"
    translator = open_model(choice, TextTask, trust=trust, reads=reads)
    change_search(translator, beam_size, length_penalty)
    with quick_start(len(lines)), progress_bar(len(lines), "translating") as progress:
        if n_best is None:
            best = translator.translate_with_scores(lines, batch_size=batch_size, progress=progress)
            outputs = [[output] for output in best]
        else:
            outputs = translator.n_best(lines, n_best, batch_size=batch_size, progress=progress)
    for number, hypotheses in enumerate(outputs, start=1):
        for output in hypotheses:
            columns = [] if n_best is None else [str(number)]
            columns += [f"{output.score:.4f}"] if scores else []
            # Print an output with line breaks on one line, too.
            _show("\t".join([*columns, " ".join(output.text.splitlines())]))
