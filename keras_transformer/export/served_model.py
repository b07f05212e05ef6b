"""An exported SavedModel, asked from Python as a server would ask it."""

from collections.abc import Callable, Iterable
from pathlib import Path

import tensorflow as tf

from keras_transformer.decoding import Translation
from keras_transformer.errors import InputError
from keras_transformer.export.saved_model import versions


class ServedModel:
    """Answers from a directory that `export_saved_model` wrote.

    Args:
        directory: of a version, or of the model: then its highest version.

    Raises:
        InputError: there is no SavedModel, or it has no `serving_default` of strings.
    """

    def __init__(self, directory: str | Path) -> None:
        # Imported for its operations, which a SavedModel with subwords needs to load.
        import tensorflow_text  # noqa: F401

        self.directory = saved_model_directory(Path(directory))
        try:
            self._module = tf.saved_model.load(str(self.directory))
            self._serve = self._module.signatures["serving_default"]
        except (OSError, KeyError, ValueError) as error:
            raise InputError(f"{self.directory} cannot be loaded as a SavedModel: {error}") from error

    def translate_with_scores(
        self, texts: Iterable[str], batch_size: int = 64, progress: Callable[[int], None] | None = None
    ) -> list[Translation]:
        """Answers any number of strings.

        Args:
            texts: sources.
            batch_size: how many are sent together.
            progress: called after each batch with the number of strings in it.

        Returns:
            an answer for each source, in the same order.
        """
        texts = list(texts)
        answers: list[Translation] = []
        for start in range(0, len(texts), batch_size):
            batch = self._serve(text=tf.constant(texts[start : start + batch_size]))
            outputs, scores = batch["output"].numpy(), batch["score"].numpy()
            answers += [Translation(o.decode(), float(s)) for o, s in zip(outputs, scores, strict=True)]
            if progress is not None:
                progress(len(outputs))
        return answers


def saved_model_directory(directory: Path) -> Path:
    """Finds the SavedModel that a directory stands for.

    Args:
        directory: of a version, or of the model with its versions.

    Returns:
        the directory of the version; the highest where there are several.

    Raises:
        InputError: there is none.
    """
    if (directory / "saved_model.pb").is_file():
        return directory
    numbers = versions(directory)
    if not numbers:
        raise InputError(f"{directory} is not the directory of a SavedModel: it has no saved_model.pb.")
    return directory / str(numbers[-1])
