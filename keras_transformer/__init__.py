"""The encoder-decoder Transformer as a Keras library.

    import keras_transformer as kt

`import keras_transformer` registers every layer and model with Keras, so that
`.keras` files load without `custom_objects`. What needs TensorFlow (`data`,
`text`, `export`) is imported when it is first used.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_transformer import (
        course,
        data,
        decoding,
        evaluation,
        export,
        layers,
        models,
        runs,
        text,
        training,
        visualization,
    )
    from keras_transformer.decoding import Translator
    from keras_transformer.models import CausalLM, EncoderModel, Transformer

__all__ = [
    "CausalLM",
    "EncoderModel",
    "Transformer",
    "Translator",
    "course",
    "data",
    "decoding",
    "evaluation",
    "export",
    "layers",
    "models",
    "runs",
    "text",
    "training",
    "visualization",
]

# Where each name that is no module of this package comes from.
_CLASSES = {
    "CausalLM": "keras_transformer.models",
    "EncoderModel": "keras_transformer.models",
    "Transformer": "keras_transformer.models",
    "Translator": "keras_transformer.decoding",
}


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(importlib.import_module(_CLASSES[name]), name)
    if name in __all__:
        return importlib.import_module(f"keras_transformer.{name}")
    raise AttributeError(f"module 'keras_transformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


# Keras takes seconds to import. The command line imports it when a command needs it, so that
# `--help` answers at once; everyone else gets everything that Keras must know of.
if Path(sys.argv[0] if sys.argv else "").stem != "keras-transformer":
    for _stage in ("layers", "models", "training", "decoding", "course"):
        importlib.import_module(f"keras_transformer.{_stage}")
