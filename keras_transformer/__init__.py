"""Transformer models for Keras 3: `import keras_transformer as kt`.

The import registers all layers and models with Keras, so `keras.models.load_model` needs no `custom_objects`.
"""

import importlib
import importlib.metadata
import sys
from typing import TYPE_CHECKING, Any

from keras_transformer.errors import ExportError, InputError
from keras_transformer.types import SpecialIds

# A script that only calls `keras.models.load_model` needs the registered classes. The command line skips
# them, so that it can print `--help` and report wrong arguments before Keras is imported.
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


# Names imported on first use, because their packages need Keras, TensorFlow or a plotting library.
_LAZY = {
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
    if name == "__version__":  # from `pyproject.toml`
        return importlib.metadata.version("keras-transformer")
    if name in _LAZY:
        return getattr(_import_subpackage(_LAZY[name]), name)
    if name in __all__:
        return _import_subpackage(name)
    raise AttributeError(f"module 'keras_transformer' has no attribute {name!r}")


def _import_subpackage(name: str) -> Any:
    """Import a subpackage; raise ImportError that names a missing dependency."""
    try:
        return importlib.import_module(f"keras_transformer.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing in ("", "keras_transformer"):
            raise
        # `models`, `training` and `decoding` need only one backend, such as JAX without TensorFlow.
        raise ImportError(
            f"`keras_transformer.{name}` needs the package {missing}, which is not installed; `layers`, "
            "`models`, `training` and `decoding` do not.",
            name=missing,
        ) from error


def __dir__() -> list[str]:
    return __all__
