"""`keras-transformer generate`."""

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from keras_transformer.cli.options import check_texts, choose_model, given_texts, model_options
from keras_transformer.cli.terminal import Verb, _show, loading, progress_bar
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.tasks import TextTask


@click.command(cls=Verb)
@click.argument("prompts", nargs=-1)
@model_options
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    help="Sampling temperature. Higher values give more variety; 0 always takes the most likely token.",
)
@click.option("--top-k", type=click.IntRange(min=1), help="Sample only from the K most likely tokens.")
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    help="Sample only from the smallest set of tokens whose cumulative probability reaches this value.",
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Random seed of the samples.")
@click.option("--num-samples", type=click.IntRange(min=1), help="Number of texts per prompt.  [1]")
@click.option(
    "--max-length",
    type=click.IntRange(min=2),
    help="Maximum text length in tokens, including the prompt. Defaults to the model's maximum, and must not "
    "exceed it.",
)
@click.option("--input", "input_file", type=click.Path(), help="File with one prompt per line, plain or .gz.")
@click.option(
    "--scores",
    is_flag=True,
    help="Print the score (log-probability) and a tab before each text.",
)
def generate(
    prompts: tuple[str, ...],
    model: str | None,
    saved_model: str | None,
    batch_size: int,
    trust: bool,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    num_samples: int | None,
    max_length: int | None,
    input_file: str | None,
    scores: bool,
) -> None:
    """Generate text from prompts.

    Give the prompts as arguments, with --input, or on standard input (one prompt per line). For an empty
    prompt, the model writes a new text. The output is one line per text, best first; each text begins with
    its prompt. --temperature, --top-k, --top-p and --seed default to those of the model. With an export, only
    --seed, --max-length and --num-samples can be changed; --num-samples is at most that of the export.

    \b
      keras-transformer generate --model runs/tales "once upon a time"
      keras-transformer generate --model runs/tales --temperature 1 --num-samples 3 --seed 7 "the dog"
      keras-transformer generate --saved-model saved_models/tales < prompts.txt > texts.txt
    """
    check_texts(prompts, input_file, "prompts")
    choice = choose_model(model, saved_model)
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    changes = {name: value for name, value in sampling.items() if value is not None}
    if choice.is_export and changes:
        raise InputError(f"An export samples as it was exported; name a --model. Received: {changes}.")
    with loading(choice.path):
        from keras_transformer._backend import quick_start
        from keras_transformer.cli.models import open_model
        from keras_transformer.export.served_model import ServedModel
        from keras_transformer.tasks import TextTask
    lines = given_texts(prompts, input_file)
    task = open_model(choice, TextTask, trust=trust)
    with quick_start(len(lines)), progress_bar(len(lines), "generating") as progress:
        if isinstance(task, ServedModel):
            outputs = task.search(
                lines,
                num_samples or 1,
                max_length=max_length,
                seed=seed or 0,
                batch_size=batch_size,
                progress=progress,
            )
        else:
            _change_sampling(task, changes, seed, num_samples, max_length)
            outputs = task.n_best(lines, num_samples or 1, batch_size=batch_size, progress=progress)
    for hypotheses in outputs:
        for output in hypotheses:
            columns = [f"{output.score:.4f}"] if scores else []
            # Print a text with line breaks on one line, too.
            _show("\t".join([*columns, " ".join(output.text.splitlines())]))


def _change_sampling(
    task: "TextTask",
    sampling: dict[str, float],
    seed: int | None,
    num_samples: int | None,
    max_length: int | None,
) -> None:
    """Change sampling and maximum length of the model; raise InputError if it does not generate text."""
    from keras_transformer.decoding import GreedySearch, SampleSearch
    from keras_transformer.tasks import TextGenerator

    if not isinstance(task, TextGenerator):
        raise InputError(f"The model must continue texts. Received: a {type(task).__name__}.")
    options: dict[str, Any] = {**sampling, "seed": seed, "num_samples": num_samples}
    given = {name: value for name, value in options.items() if value is not None}
    if given.get("temperature") == 0:
        if len(given) > 1:
            raise InputError(f"--temperature 0 draws nothing, and takes no other option. Received: {given}.")
        task.search = GreedySearch()
    elif given:
        search = task.search if isinstance(task.search, SampleSearch) else SampleSearch()
        task.search = dataclasses.replace(search, **given)
    if max_length is not None:
        if max_length > task.max_length:
            wanted = f"--max-length must be at most the model's {task.max_length}"
            raise InputError(f"{wanted}. Received: {max_length}.")
        task.max_length = max_length
