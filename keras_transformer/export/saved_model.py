"""A translator as a directory that TensorFlow Serving loads as it is."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf

from keras_transformer.decoding import Translator
from keras_transformer.errors import InputError
from keras_transformer.export.directory_readme import directory_readme
from keras_transformer.export.serving_module import ServingModule
from keras_transformer.export.verification import verify_saved_model
from keras_transformer.export.warmup import write_warmup_requests

# Answers that the writer compares: besides the examples, what users send by mistake.
_HARD_TEXTS = ("", "  ", "\U0001f600 \u05e9\u05dc\u05d5\u05dd")


def export_saved_model(translator: Translator, directory: str | Path, examples: Sequence[str] = ()) -> Path:
    """Writes the next version of a model, and checks it before it appears.

    The version is written beside, loaded in a fresh process without Keras and without this package,
    and compared with the translator's answers. Only then is it renamed to its number, so a server
    that watches the directory never sees half a model.

    Args:
        translator: on the TensorFlow backend.
        directory: of the model; its last part is the model's name, the versions are numbers in it.
        examples: real sources, for the comparison and for the warm-up requests.

    Returns:
        the directory of the new version.

    Raises:
        InputError: the directory cannot be written, or Keras runs on another backend.
        ExportError: the SavedModel does not answer as the translator does; nothing is left of it.
    """
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "Export needs the TensorFlow backend: set KERAS_BACKEND=tensorflow and load the model again. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}."
        )
    directory = Path(directory)
    version = next_version(directory)
    partial = directory / f".partial-{version}"
    examples = list(examples)[:8]
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write(translator, partial, directory.name, examples)
        _verify(translator, partial, examples)
        return partial.rename(directory / str(version))
    except OSError as error:
        raise InputError(f"Cannot write {directory}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def next_version(directory: Path) -> int:
    """Finds the number of the next version.

    Args:
        directory: of the model, which need not exist.

    Returns:
        1, or one more than the highest version there.
    """
    return max(versions(directory), default=0) + 1


def versions(directory: Path) -> list[int]:
    """Lists the versions of a model.

    Args:
        directory: of the model.

    Returns:
        the numbers, ascending; empty where the directory does not exist.
    """
    if not directory.is_dir():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())


def _write(translator: Translator, partial: Path, name: str, examples: list[str]) -> None:
    with tempfile.TemporaryDirectory() as vocabularies:
        module = ServingModule(translator, _vocabulary_files(translator, Path(vocabularies)))
        tf.saved_model.save(module, str(partial), signatures=module.signatures())
    if examples:
        write_warmup_requests(partial, name, examples)
    needs_text = _needs_tensorflow_text(translator)
    readme = directory_readme(name, examples, needs_tensorflow_text=needs_text)
    (partial / "README.md").write_text(readme, encoding="utf-8")


def _vocabulary_files(translator: Translator, directory: Path) -> list[str]:
    """Writes both vocabularies under names of their own."""
    paths = []
    for side in ("source", "target"):
        tokenizer = getattr(translator, f"{side}_tokenizer")
        tokenizer.save(directory / side)
        files = tokenizer.asset_files(directory / side)
        paths += [str(path.rename(directory / f"{side}_{path.name}")) for path in files]
    return paths


def _verify(translator: Translator, partial: Path, examples: list[str]) -> None:
    texts = [*examples, *_HARD_TEXTS]
    expected = translator.translate_with_scores(texts)
    verify_saved_model(partial, texts, expected, needs_tensorflow_text=_needs_tensorflow_text(translator))


def _needs_tensorflow_text(translator: Translator) -> bool:
    tokenizers = (translator.source_tokenizer, translator.target_tokenizer)
    return any(tokenizer.needs_tensorflow_text for tokenizer in tokenizers)
