"""The model that a verb asks, loaded: what needs TensorFlow."""

import dataclasses
from pathlib import Path

from keras_transformer.cli.options import ModelChoice
from keras_transformer.decoding import BeamSearch, GreedySearch
from keras_transformer.errors import InputError
from keras_transformer.export.served_model import ServedClassifier, ServedModel, ServedTagger, served_kind
from keras_transformer.tasks import (
    Classifier,
    SearchTask,
    Tagger,
    Task,
    TextClassifier,
    TextTagger,
    TextTask,
    load_task,
)


def open_model(choice: ModelChoice, *, trust: bool = False, reads: str = "text") -> TextTask:
    """Load what writes texts; raise InputError for a model that does not, or that reads something else."""
    task = ServedModel(choice.path, trust=trust) if choice.is_export else load_task(choice.path)
    return _reading(reads, task, choice.path)


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


def open_classifier(choice: ModelChoice, *, trust: bool = False) -> Classifier:
    """Load a trained classifier or its export."""
    if choice.is_export:
        return ServedClassifier(choice.path, trust=trust)
    return TextClassifier.load(choice.path)


def open_tagger(choice: ModelChoice, *, trust: bool = False) -> Tagger:
    """Load a trained tagger or its export."""
    if choice.is_export:
        return ServedTagger(choice.path, trust=trust)
    return TextTagger.load(choice.path)


def is_classifier(choice: ModelChoice) -> bool:
    """Return whether a trained model or an export gives labels; both are not loaded."""
    if choice.is_export:
        return served_kind(choice.path) is ServedClassifier
    return Path(choice.path, TextClassifier.options_file).is_file()


def change_search(translator: TextTask, beam_size: int | None, length_penalty: float | None) -> None:
    """Give a trained model another beam or length penalty; an export was refused by `check_search`."""
    if not isinstance(translator, SearchTask) or (beam_size is None and length_penalty is None):
        return
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
