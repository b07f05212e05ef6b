"""A translator as a directory: the model, its tokenizers and the search."""

import json
from pathlib import Path
from typing import Any

from keras_transformer.decoding.directory_swap import written_as_one
from keras_transformer.decoding.search_options import read_search, search_options
from keras_transformer.errors import InputError
from keras_transformer.files import file_sha256, write_file
from keras_transformer.training.model_files import load_model, save_model

MODEL_FILE = "model.keras"
OPTIONS_FILE = "translator.json"
SOURCE_TOKENIZER = "source_tokenizer"
TARGET_TOKENIZER = "target_tokenizer"

_PARTS = "parts"
"""The option that tells whether the other files are those that were saved with it."""


def save_translator(translator: Any, directory: Path) -> None:
    """Write a translator; see `Translator.save`.

    Args:
        translator: a `Translator`.
        directory: made if absent. It changes when everything is written, and not if something fails.

    Raises:
        OSError: a file cannot be written.
        ValueError: the search cannot be read back, because it is of an unknown class.
    """
    options = {
        "search": search_options(translator.search),
        "max_source_length": translator.max_source_length,
        "max_target_length": translator.max_target_length,
    }
    with written_as_one(directory) as beside:
        translator.source_tokenizer.save(beside / SOURCE_TOKENIZER)
        translator.target_tokenizer.save(beside / TARGET_TOKENIZER)
        save_model(translator.model, beside / MODEL_FILE)
        options[_PARTS] = _parts(translator.source_tokenizer, translator.target_tokenizer, beside)
        # NumPy's numbers are numbers, too.
        content = json.dumps(options, indent=2, default=lambda number: number.item())
        write_file(beside / OPTIONS_FILE, (content + "\n").encode())


def load_translator(translator_class: Any, directory: Path) -> Any:
    """Read a translator; see `Translator.load`.

    Args:
        translator_class: `Translator` or a class derived from it.
        directory: where `save_translator` wrote.

    Returns:
        The translator.

    Raises:
        InputError: a part is missing or damaged, or the parts do not fit together.
    """
    # Imported here: tokenizers need TensorFlow, the rest of decoding does not.
    from keras_transformer.text.loading import load_tokenizer

    for name in (OPTIONS_FILE, MODEL_FILE):
        if not (directory / name).is_file():
            raise InputError(f"{directory} is not the directory of a model: it has no {name}.")
    options = _read_options(directory / OPTIONS_FILE)
    source_tokenizer = load_tokenizer(directory / SOURCE_TOKENIZER)
    target_tokenizer = load_tokenizer(directory / TARGET_TOKENIZER)
    received = _parts(source_tokenizer, target_tokenizer, directory)
    _check_parts(directory, options.pop(_PARTS, received), received)
    model = load_model(directory / MODEL_FILE)
    try:
        return translator_class(
            model,
            source_tokenizer,
            target_tokenizer,
            search=read_search(options.pop("search")),
            **options,
        )
    # A Keras model of another class lacks the attributes of a `Transformer`.
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{directory}: {error}") from error


def _parts(source_tokenizer: Any, target_tokenizer: Any, directory: Path) -> dict[str, str]:
    """Tell the parts of a translator from those of others."""
    return {
        SOURCE_TOKENIZER: source_tokenizer.fingerprint(),
        TARGET_TOKENIZER: target_tokenizer.fingerprint(),
        MODEL_FILE: file_sha256(directory / MODEL_FILE),
    }


def _check_parts(directory: Path, wanted: dict[str, str], received: dict[str, str]) -> None:
    """Refuse parts of two translators: a process was killed while it replaced one by the other."""
    others = [name for name in received if received[name] != wanted.get(name)]
    if others:
        raise InputError(
            f"{directory} holds parts of different models: {', '.join(others)} must be what was saved "
            f"with {OPTIONS_FILE}. Save the model again."
        )


def _read_options(path: Path) -> dict[str, Any]:
    try:
        options = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if not isinstance(options, dict) or not isinstance(options.get("search"), dict):
        raise InputError(f"{path} is damaged: it must hold an object with a `search`. Received: {options!r}.")
    return options
