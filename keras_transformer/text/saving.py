"""The directory of a saved tokenizer: its vocabulary file, and `tokenizer.json`.

`tokenizer.json` holds the kind, the options, and the vocabulary's SHA-256.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.files import read_file, write_file

OPTIONS_FILE = "tokenizer.json"


def write_tokenizer(
    directory: Path,
    vocabulary_file: str,
    vocabulary: bytes,
    options: Mapping[str, object],
) -> None:
    """Writes both files, each beside its place and renamed.

    Args:
        directory: created if absent.
        vocabulary_file: the name of the vocabulary file.
        vocabulary: its content.
        options: the kind and the options of the tokenizer.

    Raises:
        InputError: a file cannot be written.
    """
    write_file(directory / vocabulary_file, vocabulary)
    saved = {**options, "vocabulary_sha256": _sha256(vocabulary)}
    # Last: a directory with this file is a complete tokenizer.
    write_file(directory / OPTIONS_FILE, (json.dumps(saved, indent=2) + "\n").encode())


def read_options(directory: Path) -> dict[str, object]:
    """Reads the options of a saved tokenizer.

    Args:
        directory: where `write_tokenizer` wrote.

    Returns:
        names and values, `kind` and `vocabulary_sha256` among them.

    Raises:
        InputError: the file is missing or damaged.
    """
    path = directory / OPTIONS_FILE
    content = read_file(path)
    try:
        options = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must hold JSON. Received: {error}.") from error
    if not isinstance(options, dict):
        raise InputError(f"{path} must hold a JSON object. Received: {options!r}.")
    return options


def read_flags(directory: Path, kind: str, names: tuple[str, ...]) -> dict[str, bool]:
    """Reads the constructor options of a saved tokenizer.

    Args:
        directory: where `write_tokenizer` wrote.
        kind: the kind that it must have.
        names: the options that it may have.

    Returns:
        the options that the file holds.

    Raises:
        InputError: the kind differs, an option is unknown, or a value is not a boolean.
    """
    path, options = directory / OPTIONS_FILE, read_options(directory)
    options.pop("vocabulary_sha256", None)
    received = options.pop("kind", None)
    if received != kind:
        raise InputError(f"{path}: kind must be {kind!r}. Received: {received!r}.")
    flags: dict[str, bool] = {}
    for name, value in options.items():
        if name not in names:
            raise InputError(f"{path}: options must be among {names}. Received: {name!r}.")
        if not isinstance(value, bool):
            raise InputError(f"{path}: {name} must be true or false. Received: {value!r}.")
        flags[name] = value
    return flags


def check_vocabulary_hash(directory: Path, vocabulary_file: str, vocabulary: bytes) -> None:
    """Checks that a vocabulary file is the one that was saved.

    A changed vocabulary no longer fits the weights that were trained with it.

    Args:
        directory: where `write_tokenizer` wrote.
        vocabulary_file: the name of the vocabulary file.
        vocabulary: its content.

    Raises:
        InputError: the content differs; an options file without a hash accepts any.
    """
    received, wanted = _sha256(vocabulary), read_options(directory).get("vocabulary_sha256")
    if wanted not in (None, received):
        path = directory / vocabulary_file
        raise InputError(f"{path} is damaged: SHA-256 must be {wanted}. Received: {received}.")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
