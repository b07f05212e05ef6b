"""A translator as a directory: the model, its tokenizers and the search."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_transformer._files import Checksums, atomic_directory, read_file, read_table, write_file
from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.sampling import GreedySearch, SampleSearch
from keras_transformer.decoding.search import Search
from keras_transformer.errors import InputError
from keras_transformer.training.checkpoint import load_model
from keras_transformer.types import Config, Length

MODEL_FILE = "model.keras"
_SEARCHES: dict[str, type[Search]] = {"beam": BeamSearch, "greedy": GreedySearch, "sample": SampleSearch}


def _write_translator(directory: Path, options_file: str, arguments: Config) -> None:
    """Write a translator; the directory changes when everything is written, and not if something fails."""
    limits = {name: arguments[name] for name in _ending(arguments, "_length")}
    options = {"search": _search_options(arguments["search"]), **limits}
    with atomic_directory(directory, replace=True) as partial:
        for name in _ending(arguments, "tokenizer"):
            arguments[name].save(partial / name)
        arguments["model"].save(partial / MODEL_FILE)
        # NumPy's numbers are numbers, too.
        content = json.dumps(options, indent=2, default=lambda number: number.item())
        write_file(partial / options_file, (content + "\n").encode())
        # A single rename cannot replace a directory that is there. With these a translator that was half
        # replaced by another is refused: vocabularies of one size would fit, and be wrong.
        Checksums.write(partial)


def _read_translator(directory: Path, options_file: str, names: Iterable[str]) -> Config:
    """Return the named arguments; raise `InputError` for damaged parts or those of two models."""
    # Imported here: tokenizers need TensorFlow, the rest of decoding does not.
    from keras_transformer.text.tokenizer import load_tokenizer

    for name in (options_file, MODEL_FILE):
        if not (directory / name).is_file():
            raise InputError(f"{directory} is not the directory of a model: it has no {name}.")
    Checksums.check(directory)
    path, limits = directory / options_file, _ending(names, "_length")
    fields = [("search", dict[str, Any]), *((name, Length) for name in limits)]
    # Of files without `Checksums`, unused.
    parts: dict[str, str] = dataclasses.field(default_factory=dict)
    kind = dataclasses.make_dataclass("_Options", [*fields, ("parts", dict[str, str], parts)])
    options = vars(read_table(read_file(path), path, kind))
    return {
        "model": load_model(directory / MODEL_FILE),
        **{name: load_tokenizer(directory / name) for name in _ending(names, "tokenizer")},
        "search": _read_search(options["search"], path),
        **{name: options[name] for name in limits},
    }


def _ending(names: Iterable[str], end: str) -> list[str]:
    return [name for name in names if name.endswith(end)]


def _search_options(search: Search) -> Config:
    """Describe a search by its kind and its fields."""
    kinds = [kind for kind, search_class in _SEARCHES.items() if type(search) is search_class]
    if not kinds:
        names = ", ".join(search_class.__name__ for search_class in _SEARCHES.values())
        raise ValueError(f"`search` must be one of {names} to be saved. Received: {type(search).__name__}.")
    return {"kind": kinds[0], **dataclasses.asdict(search)}


def _read_search(options: Config, path: Path) -> Search:
    kind = options.pop("kind", None)
    if kind not in [*_SEARCHES]:
        raise InputError(f"{path}: `kind` of `search` must be one of {[*_SEARCHES]}. Received: {kind!r}.")
    return read_table(json.dumps(options).encode(), path, _SEARCHES[kind])
