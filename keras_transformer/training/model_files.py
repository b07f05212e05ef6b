"""A model as one file: never half written, and errors that name the file."""

import contextlib
import re
import textwrap
import warnings
from pathlib import Path

import keras

from keras_transformer.errors import InputError
from keras_transformer.files import move_file
from keras_transformer.models import Transformer

PARTIAL = ".partial-"
_EPOCH = re.compile(r"epoch-(\d{4,})\.keras")


def epoch_file(epoch: int) -> str:
    """Name the checkpoint of an epoch, counted from 1."""
    return f"epoch-{epoch:04d}.keras"


def saved_epochs(directory: Path) -> list[Path]:
    """List the checkpoints of a directory, the oldest first, and no other files of like names.

    Args:
        directory: of a `Checkpoint`, or what `KeepRecent` keeps.

    Returns:
        Paths.
    """
    paths = [path for path in directory.glob("epoch-*.keras") if _EPOCH.fullmatch(path.name)]
    return sorted(paths, key=lambda path: int(path.stem.removeprefix("epoch-")))


def save_model(model: keras.Model, path: Path) -> None:
    """Write a `.keras` file beside and rename it.

    Args:
        model: to be saved.
        path: of the file.

    Raises:
        OSError: the file cannot be written; nothing is left of it.
    """
    # Keras wants the suffix `.keras`, and the name must tell that the file is not whole.
    partial = path.with_name(f"{PARTIAL}{path.name}")
    try:
        model.save(partial)
        move_file(partial, path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def load_model(path: Path) -> keras.Model:
    """Read a `.keras` file.

    Args:
        path: of the file.

    Returns:
        The model, compiled as it was.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        return keras.saving.load_model(path, custom_objects={"Transformer": Transformer})
    # Keras raises errors of many classes for a damaged archive.
    except Exception as error:
        cause = textwrap.shorten(str(error), 200)
        raise InputError(f"{path} cannot be read as a Keras model: {cause}") from error


def load_weights(model: keras.Model, path: Path) -> None:
    """Read weights and optimizer into a compiled model, whose class Keras need not know.

    Args:
        model: of the same shapes.
        path: of a `.keras` file.

    Raises:
        InputError: the file is missing, damaged, or of another model or of an optimizer with other variables.
    """
    try:
        # Keras's `LossScaleOptimizer` would make its variables a second time.
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        with warnings.catch_warnings():
            # Keras only warns, and leaves the optimizer as if it had never trained.
            warnings.filterwarnings("error", message="Skipping variable loading for optimizer")
            model.load_weights(path)
    # Keras raises errors of many classes for a damaged archive.
    except Exception as error:
        cause = textwrap.shorten(str(error), 200)
        raise InputError(f"{path} cannot be read into the model: {cause}") from error
