"""An exported SavedModel, asked from Python as a server would ask it."""

import importlib
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_transformer.decoding.text_translator import TextTranslator
from keras_transformer.errors import InputError
from keras_transformer.export.serving_graphs import SIGNATURES, SignatureName, _ServedFunction, _utf8
from keras_transformer.files import _as_path


class ServedModel(TextTranslator):
    """Answers from a directory that `export_saved_model` wrote, as a `Translator` does.

    What is too long is cut off without a `TruncationWarning`: an export does not tell.

    Args:
        directory: of a version, or of the model: then its highest version.

    Raises:
        InputError: there is no whole SavedModel, or it has no `serving_default` of strings.
    """

    def __init__(self, directory: str | Path) -> None:
        # For its operations, which a SavedModel with subwords needs to load.
        importlib.import_module("tensorflow_text")
        self.directory = _saved_model_directory(_as_path(directory))
        try:
            self._module = tf.saved_model.load(str(self.directory))
        # A half written directory raises one or the other, as far as it was written.
        except (OSError, KeyError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(f"{self.directory} cannot be loaded as a SavedModel: {error}") from error
        self._signature("serving_default")

    @property
    def _num_outputs(self) -> int:
        [_, num_outputs] = self._signature("n_best").structured_outputs["score"].shape
        return int(num_outputs)

    def _outputs(
        self, signature: SignatureName, columns: list[list[str]], numbers: list[int]
    ) -> dict[str, np.ndarray]:
        inputs = zip(SIGNATURES[signature].inputs, columns, strict=True)
        outputs = self._signature(signature)(**{side: tf.constant(_utf8(texts)) for side, texts in inputs})
        return {name: values.numpy() for name, values in outputs.items()}

    def _signature(self, name: SignatureName) -> _ServedFunction:
        """Return the function of a signature; raise InputError for one that is not ours."""
        serve = self._module.signatures.get(name)
        if serve is None:
            names = ", ".join(sorted(self._module.signatures)) or "none"
            raise InputError(f"{self.directory} has no signature {name}. It has: {names}.")
        specs = serve.structured_input_signature[1]
        received = {column: (spec.dtype.name, spec.shape.rank) for column, spec in specs.items()}
        if received != SIGNATURES[name].inputs:
            raise InputError(
                f"{self.directory}: {name} must take {SIGNATURES[name].inputs}. Received: {received}."
            )
        function: _ServedFunction = serve
        return function


def _versions(directory: Path) -> list[int]:
    """Return the numbers of a model's versions, ascending; none where the directory does not exist."""
    paths = directory.iterdir() if directory.is_dir() else ()
    return sorted(int(path.name) for path in paths if path.name.isdecimal())


def _saved_model_directory(directory: Path) -> Path:
    """Return the directory of a version: of the highest one where it is that of a model."""
    if not (directory / "saved_model.pb").is_file():
        numbers = _versions(directory)
        if not numbers:
            raise InputError(f"{directory} is not the directory of a SavedModel: it has no saved_model.pb.")
        directory = directory / str(numbers[-1])
    for part in ("saved_model.pb", "variables/variables.index"):
        if not (directory / part).is_file():
            raise InputError(f"{directory} is not a whole SavedModel: it has no {part}.")
    return directory
