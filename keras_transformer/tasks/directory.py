"""A task as a directory: the model, its tokenizers, the search and the limits."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import keras

from keras_transformer._files import (
    Checksums,
    atomic_directory,
    current_path,
    directory_lock,
    read_file,
    read_table,
    write_file,
)
from keras_transformer.decoding import Search
from keras_transformer.errors import InputError
from keras_transformer.text import Reader, load_reader
from keras_transformer.training import load_model
from keras_transformer.types import Config

MODEL_FILE = "model.keras"


def _write_task(
    path: Path,
    model: keras.Model,
    tokenizers: Mapping[str, Reader],
    options: Mapping[str, Any],
) -> None:
    """Write a task with the options file `path`; the directory changes when everything is written."""
    options = {
        name: _search_options(value) if isinstance(value, Search) else value
        for name, value in options.items()
    }
    # A kill leaves one of the two tasks: `current_path` reads the entries of either.
    with atomic_directory(path.parent, replace=True) as partial:
        for name, tokenizer in tokenizers.items():
            tokenizer.save(partial / name)
        model.save(partial / MODEL_FILE)
        # NumPy's numbers are numbers, too.
        content = json.dumps(options, indent=2, default=lambda number: number.item())
        write_file(partial / path.name, (content + "\n").encode())
        # With these a task of which a part was replaced by hand is refused: vocabularies of one size would
        # fit, and be wrong.
        Checksums.write(partial)


def _read_task(path: Path, tokenizers: Sequence[str], types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a task; raise `InputError` for damaged parts or those of two models."""
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not the directory of a model: it has no {path.name}.")
    with directory_lock(path.parent, shared=True):
        return _read_parts(path.parent, path.name, tokenizers, types)


def _read_parts(
    directory: Path, options_file: str, tokenizers: Sequence[str], types: Mapping[str, Any]
) -> dict[str, Any]:
    path, model = current_path(directory, options_file), current_path(directory, MODEL_FILE)
    for part in (path, model):
        if not part.is_file():
            raise InputError(f"{directory} is not the directory of a model: it has no {part.name}.")
    Checksums.check(directory)
    fields: list[Any] = [(name, dict[str, Any] if kind is Search else kind) for name, kind in types.items()]
    # Files from before there was an option lack it: the constructor's default, as for None.
    absent = dataclasses.field(default=None)
    fields = [(*field, absent) if NoneType in get_args(field[1]) else field for field in fields]
    # Of files without `Checksums`, unused.
    parts: dict[str, str] = dataclasses.field(default_factory=dict)
    kind = dataclasses.make_dataclass("_Options", [*fields, ("parts", dict[str, str], parts)], kw_only=True)
    options = vars(read_table(read_file(path), path, kind))
    return {
        "model": load_model(model),
        **{name: load_reader(current_path(directory, name)) for name in tokenizers},
        **{
            name: _read_search(options[name], path) if kind is Search else options[name]
            for name, kind in types.items()
            if options[name] is not None
        },
    }


def _search_options(search: Search) -> Config:
    """Describe a search by its kind and its fields."""
    # The kind of a base, which a class without one of its own has, is not its own.
    kind = getattr(search, "kind", None)
    if kind is None or Search.kinds[kind] is not type(search):
        names = ", ".join(search_class.__name__ for search_class in Search.kinds.values())
        raise ValueError(f"`search` must be one of {names} to be saved. Received: {type(search).__name__}.")
    return {"kind": kind, **dataclasses.asdict(search)}


def _read_search(options: Config, path: Path) -> Search:
    kind = options.pop("kind", None)
    if kind not in [*Search.kinds]:
        raise InputError(f"{path}: `kind` of `search` must be one of {[*Search.kinds]}. Received: {kind!r}.")
    return read_table(json.dumps(options).encode(), path, Search.kinds[kind])
