"""`keras-transformer evaluate`."""

from typing import TYPE_CHECKING, Any

import click

from keras_transformer.cli.options import (
    ModelChoice,
    check_files,
    check_search,
    choose_model,
    model_options,
    search_options,
)
from keras_transformer.cli.terminal import Verb, _show, loading, progress_bar
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.runs import RunKind
    from keras_transformer.tasks import Task


@click.command(cls=Verb)
@model_options
@click.option(
    "--pairs",
    help="File or directory of test pairs, labelled texts or tagged texts, in a format of train --pairs. "
    "Test pairs may also be tfds:NAME (a TensorFlow dataset) or the word dates (the built-in task).",
)
@click.option("--split", default="test", show_default=True, help="Split of tfds:NAME or dates.")
@click.option("--source", type=click.Path(), help="File with one source text per line, plain or .gz.")
@click.option(
    "--target", type=click.Path(), help="File with the reference translation of each line of --source."
)
@click.option("--frames", type=click.Path(), help="File or directory of frames, as for train.")
@click.option(
    "--targets",
    type=click.Path(),
    help="File with the targets of --frames. Defaults to those stored in --frames.",
)
@click.option("--texts", multiple=True, help="Test texts of a text generation model, as for train.")
@click.option(
    "--packed",
    is_flag=True,
    help="Join all texts, and score pieces of the model's maximum length. For a model trained with --packed.",
)
@click.option(
    "--bleu-tokenize",
    type=click.Choice(["13a", "none", "intl", "char"]),
    help="Tokenization of sacreBLEU. Use none for texts that are already tokenized.  [default: 13a]",
)
@search_options
@click.option("--multi-label", is_flag=True, help="Classifiers only: a text may have any number of labels.")
@click.option(
    "--unique",
    is_flag=True,
    help="Score each distinct source once, with all its targets as references. In --pairs files, the "
    "columns after the second are also references. Labelled texts: score equal examples once.",
)
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
    bleu_tokenize: str | None,
    beam_size: int | None,
    length_penalty: float | None,
    multi_label: bool,
    unique: bool,
) -> None:
    """Score a model: BLEU, chrF, exact match and error rates, F1, or perplexity.

    Give one kind of test data: --pairs, --source and --target, --frames, or --texts.

    \b
      keras-transformer evaluate --model runs/dates --pairs dates
      keras-transformer evaluate --saved-model saved_models/en_de --source test.en --target test.de
      keras-transformer evaluate --model runs/reviews --pairs test.csv
      keras-transformer evaluate --model runs/en_de --length-penalty 1.5 --source val.en --target val.de
      keras-transformer evaluate --model runs/tales --texts test.txt
    """
    origins = {"pairs": pairs, "source": source, "frames": frames, "texts": [*texts] or None}
    given = {name: origin for name, origin in origins.items() if origin is not None}
    if len(given) != 1 or (source is None) != (target is None):
        received = ", ".join(f"--{name} {origin}" for name, origin in given.items())
        wanted = "Give --pairs, or --source and --target, or --frames, or --texts"
        raise InputError(f"{wanted}. Received: {received or 'none of them'}.")
    check_files(source, target, frames, targets)
    choice = choose_model(model, saved_model)
    check_search(choice, beam_size, length_penalty)
    options: dict[str, Any] = {"target": target, "targets": targets, "bleu_tokenize": bleu_tokenize}
    options |= {"packed": packed or None, "multi_label": multi_label or None, **given}
    with loading(choice.path):
        from keras_transformer.cli.models import change_search, model_kind, open_model
        from keras_transformer.tasks import Task
    kind = _scoring(
        choice, model_kind(choice), {name: value for name, value in options.items() if value is not None}
    )
    # Read the data before the model, which takes seconds to load, so that a wrong path fails at once.
    examples = kind.read_from(kind.origin(""), split, unique=unique)
    task = open_model(choice, Task, trust=trust, reads="text" if frames is None else "features")
    change_search(task, beam_size, length_penalty)
    report, _ = kind.score(task, examples, batch_size=batch_size, unique=unique, progress=progress_bar)
    _show(str(report))


def _scoring(choice: ModelChoice, model_class: type["Task"], options: dict[str, Any]) -> "RunKind":
    """Return the run kind that scores this model with these options; raise InputError if none does."""
    from keras_transformer.runs import RunConfig, RunKind

    kinds = [kind for kind in RunKind.kinds.values() if issubclass(model_class, kind.scored_class)]
    known = [kind for kind in kinds if options.keys() <= kind.config_class.options().keys()]
    if not known:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in options)
        raise InputError(f"{choice.path} is a {model_class.__name__}, which is not scored with {flags}.")
    task = known[0].config_class.model_fields["task"].default
    return RunKind.of(RunConfig.default(task=task, **options))
