"""A translator as a directory: the model, its tokenizers and the search."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.sampling import GreedySearch, SampleSearch
from keras_transformer.decoding.search import Search
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_directory, file_sha256, write_file
from keras_transformer.training.restore import load_model
from keras_transformer.types import SpecialIds

if TYPE_CHECKING:
    from keras_transformer.text.tokenizer import Tokenizer

MODEL_FILE = "model.keras"
OPTIONS_FILE = "translator.json"
# A single rename cannot replace a directory that is there. So a file says which others belong to it, and a
# translator that was half replaced by another is refused: vocabularies of one size would fit, and be wrong.
_PARTS = "parts"
_TOKENIZERS = ("source_tokenizer", "target_tokenizer")
_SEARCHES: dict[str, type[Search]] = {"beam": BeamSearch, "greedy": GreedySearch, "sample": SampleSearch}


def _write_translator(
    directory: Path,
    model: keras.Model,
    tokenizers: Sequence["Tokenizer"],
    search: Search,
    limits: dict[str, int],
) -> None:
    """Write a translator; the directory changes when everything is written, and not if something fails."""
    options = {"search": _search_options(search), **limits}
    with atomic_directory(directory, replace=True) as partial:
        for name, tokenizer in zip(_TOKENIZERS, tokenizers, strict=True):
            tokenizer.save(partial / name)
        model.save(partial / MODEL_FILE)
        options[_PARTS] = _parts(tokenizers, partial)
        # NumPy's numbers are numbers, too.
        content = json.dumps(options, indent=2, default=lambda number: number.item())
        write_file(partial / OPTIONS_FILE, (content + "\n").encode())


def _read_translator(directory: Path) -> dict[str, Any]:
    """Return the arguments of a translator; raise `InputError` for damaged parts or those of two models."""
    # Imported here: tokenizers need TensorFlow, the rest of decoding does not.
    from keras_transformer.text.tokenizer import load_tokenizer

    for name in (OPTIONS_FILE, MODEL_FILE):
        if not (directory / name).is_file():
            raise InputError(f"{directory} is not the directory of a model: it has no {name}.")
    options = _read_options(directory / OPTIONS_FILE)
    tokenizers = {name: load_tokenizer(directory / name) for name in _TOKENIZERS}
    _check_parts(directory, options.pop(_PARTS), _parts([*tokenizers.values()], directory))
    try:
        search = _read_search(options.pop("search"))
    except (ValueError, TypeError) as error:
        raise InputError(f"{directory}: {error}") from error
    return {"model": load_model(directory / MODEL_FILE), **tokenizers, **options, "search": search}


def _search_options(search: Search) -> dict[str, Any]:
    """Describe a search by its kind and its fields."""
    kinds = [kind for kind, search_class in _SEARCHES.items() if type(search) is search_class]
    if not kinds:
        names = ", ".join(search_class.__name__ for search_class in _SEARCHES.values())
        raise ValueError(f"`search` must be one of {names} to be saved. Received: {type(search).__name__}.")
    return {"kind": kinds[0], **dataclasses.asdict(search)}


def _read_search(options: dict[str, Any]) -> Search:
    kind = options.pop("kind", None)
    if kind not in _SEARCHES:
        raise ValueError(f"The kind of `search` must be one of {sorted(_SEARCHES)}. Received: {kind!r}.")
    rules = Constraints(**options.pop("constraints", {}))
    special_ids = SpecialIds(*options.pop("special_ids", ()))
    return _SEARCHES[kind](**options, constraints=rules, special_ids=special_ids)


def _parts(tokenizers: Sequence["Tokenizer"], directory: Path) -> dict[str, str]:
    """Return a fingerprint of each part, which tells it from that of another translator."""
    fingerprints = (tokenizer.fingerprint() for tokenizer in tokenizers)
    parts = dict(zip(_TOKENIZERS, fingerprints, strict=True))
    return {**parts, MODEL_FILE: file_sha256(directory / MODEL_FILE)}


def _check_parts(directory: Path, wanted: dict[str, str], received: dict[str, str]) -> None:
    """Raise for parts of two translators: a process was killed while it replaced one by the other."""
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
    if not isinstance(options, dict) or not all(
        isinstance(options.get(name), dict) for name in ("search", _PARTS)
    ):
        raise InputError(
            f"{path} is damaged: it must hold an object with a `search` and `parts`. Received: {options!r}."
        )
    return options
