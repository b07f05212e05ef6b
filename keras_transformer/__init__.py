"""The encoder-decoder Transformer as a Keras library: `import keras_transformer as kt`.

The import registers every layer and model with Keras, so that `.keras` files load without `custom_objects`.
"""

import importlib
import importlib.metadata
import sys
from typing import TYPE_CHECKING, Any

from keras_transformer.errors import ExportError, InputError
from keras_transformer.types import SpecialIds

# A script that imports the package and only calls Keras's `load_model` needs the classes. The command line is
# the one importer that does not: it answers `--help` and wrong arguments before Keras is there.
if TYPE_CHECKING or "keras_transformer_cli" not in sys.modules:
    from keras_transformer import course, decoding, layers, models, training

if TYPE_CHECKING:
    from keras_transformer import data, evaluation, export, pretrained, runs, tasks, text, visualization
    from keras_transformer.models import CausalLM, EncoderModel, Transformer
    from keras_transformer.pretrained import from_hugging_face
    from keras_transformer.runs import Run
    from keras_transformer.tasks import TextClassifier, TextGenerator, TextTagger, Translator

__all__ = [
    "CausalLM",
    "EncoderModel",
    "ExportError",
    "InputError",
    "Run",
    "SpecialIds",
    "TextClassifier",
    "TextGenerator",
    "TextTagger",
    "Transformer",
    "Translator",
    "course",
    "data",
    "decoding",
    "evaluation",
    "export",
    "from_hugging_face",
    "layers",
    "models",
    "pretrained",
    "runs",
    "tasks",
    "text",
    "training",
    "visualization",
]


# What needs Keras or TensorFlow, or draws, is imported when it is first used, and so are all other rooms.
_LATE = {
    "CausalLM": "models",
    "EncoderModel": "models",
    "Run": "runs",
    "TextClassifier": "tasks",
    "TextGenerator": "tasks",
    "TextTagger": "tasks",
    "Transformer": "models",
    "Translator": "tasks",
    "from_hugging_face": "pretrained",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":  # that of `pyproject.toml`
        return importlib.metadata.version("keras-transformer")
    if name in _LATE:
        return getattr(_room(_LATE[name]), name)
    if name in __all__:
        return _room(name)
    raise AttributeError(f"module 'keras_transformer' has no attribute {name!r}")


def _room(name: str) -> Any:
    """Import a room; say in one sentence which package it needs if there is none."""
    try:
        return importlib.import_module(f"keras_transformer.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing in ("", "keras_transformer"):
            raise
        # Models, training and decoding work on each backend alone, as on a machine that has only JAX.
        raise ImportError(
            f"`keras_transformer.{name}` needs the package {missing}, which is not installed; `layers`, "
            "`models`, `training` and `decoding` do not.",
            name=missing,
        ) from error


def __dir__() -> list[str]:
    return __all__
