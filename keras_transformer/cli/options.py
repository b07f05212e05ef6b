"""Flags: those of a run, made from the fields of its configuration, and those that choose a model."""

import dataclasses
import types
from collections.abc import Callable, Container
from pathlib import Path
from typing import Annotated, Literal, TypeVar, Union, get_args, get_origin

import click

from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.errors import InputError
from keras_transformer.export.served_model import ServedModel
from keras_transformer.runs.config import RunConfig
from keras_transformer.tasks import SearchTask, Task, TextTask, load_task

_Command = TypeVar("_Command", bound=Callable[..., object])

# What turns a switch off, where it has a name: --no-... is the other one.
_OPPOSITES = {
    "shared": "separate",
    "lowercase": "keep-case",
    "norm_first": "norm-last",
    "share_embeddings": "separate-embeddings",
    "deterministic": "nondeterministic",
}


def run_options(command: _Command, names: Container[str] | None = None) -> _Command:
    """Add a flag for each field of a run, or for some by name, which is None where it is not given."""
    # Reversed, since click puts what is added last at the top of the help.
    for name, option in reversed(RunConfig.options().items()):
        if names is not None and name not in names:
            continue
        flag, kind = f"--{name.replace('_', '-')}", _click_type(option.annotation)
        several = _takes_several(option.annotation)
        if kind is bool:
            flag = f"{flag}/--{_OPPOSITES.get(name, f'no-{flag[2:]}')}"
        # A default in the text alone: a flag that is not given is None, so that it overrides no file.
        has_default = option.default is not None and kind is not bool
        text = f"{option.text}  [{option.default}]" if has_default else option.text
        command = click.option(
            *(flag, name),
            type=None if kind is bool else kind,
            default=None,
            help=text.replace("`", ""),
            multiple=several,
            callback=_one_or_several if several else None,
        )(command)
    return command


def _takes_several(annotation: object) -> bool:
    return get_origin(annotation) is list or any(map(_takes_several, get_args(annotation)))


def _one_or_several(_: click.Context, _flag: click.Parameter, values: tuple[str, ...]) -> object:
    # As the configuration has them: a name, a list of names, or None where the flag is not given.
    return list(values) if len(values) > 1 else next(iter(values), None)


def _click_type(annotation: object) -> click.Choice[str] | type:
    origin = get_origin(annotation)
    if origin is Literal:
        return click.Choice([str(choice) for choice in get_args(annotation)])
    # A union is one of the choices of several tasks, or one with None, which comes last; ranges are checked
    # with the rest of the configuration.
    if origin in (Annotated, Union, types.UnionType):
        kinds = [_click_type(each) for each in get_args(annotation)]
        choices = [choice for kind in kinds if isinstance(kind, click.Choice) for choice in kind.choices]
        return click.Choice([*dict.fromkeys(choices)]) if choices else kinds[0]
    return annotation if isinstance(annotation, type) else str


def model_options(command: _Command) -> _Command:
    """Add the flags that choose a model, for `open_model`, and the number of texts at a time."""
    return _choose_model(
        click.option(
            "--batch-size", type=click.IntRange(min=1), default=64, show_default=True, help="Texts at a time."
        )(command)
    )


def _choose_model(command: _Command) -> _Command:
    """Add the flags that choose a model, for `open_model`."""
    # The last comes first, since click shows what is added last at the top.
    text = "Load an export with operations of others: a program that may read and write your files."
    command = click.option("--trust", is_flag=True, help=text)(command)
    text = "Export, or one version of it. Without --model: the only one in saved_models."
    command = click.option("--saved-model", type=click.Path(), help=text)(command)
    text = "Directory that train wrote, such as runs/dates."
    return click.option("--model", type=click.Path(), help=text)(command)


def open_model(
    model: str | None, saved_model: str | None, *, trust: bool = False, reads: str = "text"
) -> TextTask:
    """Load the trained model or the export that is named; raise InputError if it is not clear which."""
    if model is not None and saved_model is not None:
        raise InputError(f"Give --model or --saved-model. Received: {model} and {saved_model}.")
    if model is not None:
        return _reading(reads, load_task(model), model)
    if saved_model is not None:
        return _reading(reads, ServedModel(saved_model, trust=trust), saved_model)
    root = Path("saved_models")
    found = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    if len(found) != 1:
        names = ", ".join(str(path) for path in found) or "none"
        raise InputError(f"Name a model with --model or --saved-model. Found in {root}: {names}.")
    return _reading(reads, ServedModel(found[0], trust=trust), found[0])


def _reading(reads: str, task: Task, path: str | Path) -> TextTask:
    if task.source.name != reads:
        wanted = {
            "text": "the model must read texts; frames are given with --frames, audio in Python",
            "features": "--frames is for models of frames",
        }
        raise InputError(f"{path}: {wanted[reads]}. Received: a model that reads {task.source.name}.")
    if not isinstance(task, TextTask):
        raise InputError(f"{path}: the model must write texts. Received: a {type(task).__name__}.")
    return task


def _search_options(command: _Command) -> _Command:
    """Add the flags that change the search of a trained model, for `_change_search`."""
    text = "Another exponent of the length than the model's, to choose one on validation pairs."
    command = click.option("--length-penalty", type=click.FloatRange(min=0), help=text)(command)
    text = "Another number of hypotheses than the model's; 1 is greedy."
    return click.option("--beam-size", type=click.IntRange(min=1), help=text)(command)


def _change_search(translator: TextTask, beam_size: int | None, length_penalty: float | None) -> None:
    """Give a trained model another beam or length penalty; raise InputError for an export."""
    if beam_size is None and length_penalty is None:
        return
    if not isinstance(translator, SearchTask):
        received = f"--beam-size {beam_size}, --length-penalty {length_penalty}"
        raise InputError(f"An export searches as it was exported; name a --model. Received: {received}.")
    search = translator.search
    if not isinstance(search, BeamSearch | GreedySearch):
        raise InputError(f"The search must be greedy or a beam. Received: {type(search).__name__}.")
    if length_penalty is not None:
        search = dataclasses.replace(search, length_penalty=length_penalty)
    shared = {field.name: getattr(search, field.name) for field in dataclasses.fields(GreedySearch)}
    # One hypothesis is greedy search, which costs less.
    if beam_size == 1:
        search = GreedySearch(**shared)
    elif beam_size is not None:
        beam = search if isinstance(search, BeamSearch) else BeamSearch(**shared)
        search = dataclasses.replace(beam, beam_size=beam_size)
    translator.search = search
