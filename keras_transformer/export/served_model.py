"""An exported SavedModel, asked from Python as a server would ask it."""

import importlib
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import TextTranslator
from keras_transformer.decoding.text_translator import BatchAnswers, Pair, utf8
from keras_transformer.errors import InputError
from keras_transformer.export.saved_model import versions
from keras_transformer.export.serving_module import SIGNATURES, read_answers


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
        self.directory = saved_model_directory(Path(directory))
        try:
            self._module = tf.saved_model.load(str(self.directory))
        # A half written directory raises one or the other, as far as it was written.
        except (OSError, KeyError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(f"{self.directory} cannot be loaded as a SavedModel: {error}") from error
        self._signature("serving_default")

    @property
    def _num_hypotheses(self) -> int:
        [_, num_hypotheses] = self._signature("n_best").structured_outputs["score"].shape
        return int(num_hypotheses)

    def _translate_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        return self._ask("serving_default", texts)

    def _n_best_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        return self._ask("n_best", texts)

    def _score_batch(self, pairs: list[Pair], places: list[int]) -> BatchAnswers:
        return self._ask("score", [source for source, _ in pairs], [target for _, target in pairs])

    def _align_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        return self._ask("align", texts)

    def _ask(self, name: str, *columns: list[str]) -> BatchAnswers:
        inputs = zip(SIGNATURES[name].inputs, columns, strict=True)
        outputs = self._signature(name)(**{side: tf.constant(utf8(texts)) for side, texts in inputs})
        arrays = {output: values.numpy() for output, values in outputs.items()}
        return BatchAnswers(read_answers(name, columns[0], arrays))

    def _signature(self, name: str) -> Any:
        """Find a signature, and refuse one that is not ours."""
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
        return serve


def saved_model_directory(directory: Path) -> Path:
    """Finds the SavedModel that a directory stands for.

    Args:
        directory: of a version, or of the model with its versions.

    Returns:
        the directory of the version; the highest where there are several.

    Raises:
        InputError: there is none, or a part of it is missing.
    """
    if not (directory / "saved_model.pb").is_file():
        numbers = versions(directory)
        if not numbers:
            raise InputError(f"{directory} is not the directory of a SavedModel: it has no saved_model.pb.")
        directory = directory / str(numbers[-1])
    for part in ("saved_model.pb", "variables/variables.index"):
        if not (directory / part).is_file():
            raise InputError(f"{directory} is not a whole SavedModel: it has no {part}.")
    return directory
