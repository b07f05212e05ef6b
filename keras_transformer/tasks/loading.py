"""Loading of saved tasks of any kind."""

from collections.abc import Iterator
from pathlib import Path

from keras_transformer._files import as_path, current_path
from keras_transformer.errors import InputError
from keras_transformer.tasks.model_task import ModelTask


def load_task(directory: str | Path) -> ModelTask:
    """Load a saved task of any kind.

    Args:
        directory: The directory that was passed to `save`, or a copy of it.

    Returns:
        A `Translator`, `TextGenerator`, `TextClassifier`, `TextTagger`, or your own subclass of `ModelTask`.

    Raises:
        InputError: If there is no task, or a part of it is damaged.

    Example:
        ```python
        task = kt.tasks.load_task("runs/de_en")
        kt.export.export_saved_model(task, "saved_models/de_en")
        ```
    """
    return saved_kind(directory).load(directory)


def saved_kind(directory: str | Path) -> type[ModelTask]:
    """Return the class of a saved task, without loading it.

    Args:
        directory: As for `load_task`.

    Returns:
        `Translator`, `TextGenerator`, `TextClassifier`, `TextTagger`, or your own subclass of `ModelTask`.

    Raises:
        InputError: If there is no task.
    """
    path = as_path(directory)
    kinds = {kind.options_file: kind for kind in _kinds(ModelTask)}
    for name, kind in kinds.items():
        if current_path(path, name).is_file():
            return kind
    wanted = f"it has no {' or '.join(kinds)}, which a run writes when its training is done"
    raise InputError(f"{path} is not the directory of a model: {wanted}.")


def _kinds(base: type[ModelTask]) -> Iterator[type[ModelTask]]:
    """Yield the classes that define an `options_file`."""
    if "options_file" in vars(base):
        yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)
