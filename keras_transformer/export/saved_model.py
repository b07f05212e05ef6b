"""A translator as a directory that TensorFlow Serving loads as it is."""

import contextlib
import secrets
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import keras

from keras_transformer.decoding import SampleSearch, Translator, TruncationWarning
from keras_transformer.decoding.text_batches import check_texts
from keras_transformer.errors import InputError
from keras_transformer.export.models_config import model_name, write_models_config
from keras_transformer.export.serving_module import OPTIMIZATIONS
from keras_transformer.export.stored_weights import rounded
from keras_transformer.export.verification import Expected, verify_saved_model
from keras_transformer.export.version_writer import needs_tensorflow_text, write_version
from keras_transformer.files import remove_stale

MAX_EXAMPLES = 8

# Answers that the writer compares: besides the examples, what users send by mistake.
HARD_TEXTS = ("", "  ", "\U0001f600 \u05e9\u05dc\u05d5\u05dd")


def export_saved_model(
    translator: Translator,
    directory: str | Path,
    examples: Sequence[str] = (),
    optimize: str = "float32",
) -> Path:
    """Writes the next version of a model, and checks it before it appears.

    The version is written beside, moved, loaded in a fresh process without Keras and without this
    package, and every signature is compared with the translator. Only then is it renamed to its number,
    so a server that watches the directory never sees half a model.

    Args:
        translator: on the TensorFlow backend.
        directory: of the model; its last part is the model's name, the versions are numbers in it.
        examples: real sources, of which the first 8 are used for the comparison and for the warm-up
            requests; for `xla` of the lengths that are usual.
        optimize: `float32`; `bfloat16` for weights of half the size, which changes answers where two
            are nearly as likely; or `xla` for a search compiled for a few lengths, of the same answers.

    Returns:
        the directory of the new version. Beside it is `models.config`, written if there was none.

    Raises:
        InputError: the directory cannot be written, or is that of a version, or Keras runs on another
            backend.
        ExportError: the SavedModel is not what it must be; nothing is left of it.
        ValueError: an unknown `optimize`, or a search that draws by chance, whose answers nothing could
            be compared with.
    """
    check_backend()
    if isinstance(translator.search, SampleSearch):
        raise ValueError(
            "`translator.search` must give the same answer each time to be exported. "
            f"Received: {type(translator.search).__name__}."
        )
    if optimize not in OPTIMIZATIONS:
        raise ValueError(f"`optimize` must be one of {OPTIMIZATIONS}. Received: optimize={optimize!r}.")
    directory = Path(directory)
    if (directory / "saved_model.pb").exists():
        raise InputError(
            f"`directory` must be that of a model, with its versions in it. Received: {directory}, a version."
        )
    is_new, name, version = not directory.exists(), model_name(directory), next_version(directory)
    # Of this export alone: another one may be at work, and the first to end gets the number.
    own = f"{version}-{secrets.token_hex(4)}"
    written, moved = (directory / f".{state}-{own}" for state in ("partial", "moved"))
    examples = check_texts(examples, "examples")[:MAX_EXAMPLES]
    try:
        for left in (*directory.glob(".partial-*"), *directory.glob(".moved-*")):
            remove_stale(left)
        written.mkdir(parents=True)
        write_version(translator, written, examples, optimize=optimize, name=name, version=version)
        # What is checked has another path than what was written, as it has when it is deployed.
        _verify(translator, written.rename(moved), examples, optimize)
        write_models_config(directory)
        return moved.rename(directory / str(version))
    except OSError as error:
        raise InputError(f"Cannot write {directory}: {error.strerror or error}.") from error
    finally:
        for place in (written, moved):
            shutil.rmtree(place, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):  # it holds the version
                directory.rmdir()


def check_backend() -> None:
    """Refuse to export where Keras does not run on TensorFlow.

    Raises:
        InputError: it runs on another backend.
    """
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "Export needs the TensorFlow backend: set KERAS_BACKEND=tensorflow and load the model again. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}."
        )


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


def _verify(translator: Translator, directory: Path, examples: list[str], optimize: str) -> None:
    """Compare with the answers of the translator; for rounded weights, of one with such weights."""
    texts = [*examples, *HARD_TEXTS]
    model = rounded(translator) if optimize == "bfloat16" else translator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        translations = model.translate_with_scores(texts)
        outputs = [translation.text for translation in translations]
        expected: Expected = {
            "serving_default": translations,
            "n_best": model.n_best(texts),
            "align": model.align(texts),
            "score": model.score(texts, outputs),
        }
    needs_text = needs_tensorflow_text(translator)
    verify_saved_model(directory, texts, outputs, expected, needs_tensorflow_text=needs_text)
