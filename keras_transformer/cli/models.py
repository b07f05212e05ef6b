"""Load the model that a command uses; needs TensorFlow."""

import dataclasses
from typing import Any, TypeVar

from keras_transformer.cli.options import ModelChoice
from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.errors import InputError
from keras_transformer.export import served_kind
from keras_transformer.tasks import ModelTask, SearchTask, Task

_Task = TypeVar("_Task", bound=Task)


def open_model(
    choice: ModelChoice, task_class: type[_Task], *, trust: bool = False, reads: str = "text"
) -> _Task:
    """Load a model; raise InputError if its task or its kind of input does not fit the command."""
    kind: Any = model_kind(choice)
    if not issubclass(kind, task_class):
        from keras_transformer.runs import RunKind

        runs = [run for run in RunKind.kinds.values() if issubclass(kind, run.scored_class)]
        runs.sort(key=lambda run: issubclass(kind, run.task_class))  # its own kind of run last
        asked = f"ask it with: keras-transformer {runs[-1].verb}" if runs else "ask it from Python"
        raise InputError(f"{choice.path} is a {kind.__name__}; {asked}")
    task: _Task = kind.load(choice.path) if issubclass(kind, ModelTask) else kind(choice.path, trust=trust)
    if task.reader.column != reads:
        wanted = {
            "text": "the model must read texts; frames are given with --frames, audio in Python",
            "features": "--frames is for models of frames",
        }
        received = f"a model that reads {task.reader.column}"
        raise InputError(f"{choice.path}: {wanted[reads]}. Received: {received}.")
    return task


def model_kind(choice: ModelChoice) -> type[Task]:
    """Return the task class of a model without loading it."""
    return served_kind(choice.path) if choice.is_export else ModelTask.kind_of(choice.path)


def change_search(translator: Task, beam_size: int | None, length_penalty: float | None) -> None:
    """Set another beam size or length penalty; `check_search` has already refused exports."""
    if beam_size is None and length_penalty is None:
        return
    search = getattr(translator, "search", None)
    if not (isinstance(translator, SearchTask) and isinstance(search, BeamSearch | GreedySearch)):
        received = f"a {type(translator).__name__}" if search is None else type(search).__name__
        raise InputError(
            "--beam-size and --length-penalty are for models with a greedy or beam search. "
            f"Received: {received}."
        )
    if length_penalty is not None:
        search = dataclasses.replace(search, length_penalty=length_penalty)
    shared = {field.name: getattr(search, field.name) for field in dataclasses.fields(GreedySearch)}
    # A beam of one hypothesis is greedy search, which is cheaper.
    if beam_size == 1:
        search = GreedySearch(**shared)
    elif beam_size is not None:
        beam = search if isinstance(search, BeamSearch) else BeamSearch(**shared)
        search = dataclasses.replace(beam, beam_size=beam_size)
    translator.search = search
