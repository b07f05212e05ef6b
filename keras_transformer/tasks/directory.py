"""Directory of a saved task: the model, its tokenizers, the search and the limits."""

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
from keras_transformer.text import Reader
from keras_transformer.training import load_model
from keras_transformer.types import Config

MODEL_FILE = "model.keras"


def _write_task(
    path: Path,
    model: keras.Model,
    tokenizers: Mapping[str, Reader],
    options: Mapping[str, Any],
) -> None:
    """Write a task with the options file `path`; the directory changes only when all is written."""
    options = {
        name: _search_options(value) if isinstance(value, Search) else value
        for name, value in options.items()
    }
    # After a kill one of the two tasks is complete: `current_path` finds the entries of either.
    with atomic_directory(path.parent, replace=True) as partial:
        for name, tokenizer in tokenizers.items():
            tokenizer.save(partial / name)
        model.save(partial / MODEL_FILE)
        # NumPy numbers are valid, too.
        content = json.dumps(options, indent=2, default=lambda number: number.item())
        write_file(partial / path.name, (content + "\n").encode())
        # Checksums detect a part that was replaced by hand: a vocabulary of the same size would fit and
        # produce garbage.
        Checksums.write(partial)


def _read_task(path: Path, tokenizers: Sequence[str], types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a task; raise `InputError` if parts are damaged or do not belong together."""
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
    # Older files lack newer options; None selects the constructor's default.
    absent = dataclasses.field(default=None)
    fields = [(*field, absent) if NoneType in get_args(field[1]) else field for field in fields]
    # Older files, from before `Checksums`, have this entry; it is not used.
    parts: dict[str, str] = dataclasses.field(default_factory=dict)
    kind = dataclasses.make_dataclass("_Options", [*fields, ("parts", dict[str, str], parts)], kw_only=True)
    options = vars(read_table(read_file(path), path, kind))
    return {
        "model": load_model(model),
        **{name: Reader.load(current_path(directory, name)) for name in tokenizers},
        **{
            name: _read_search(options[name], path) if kind is Search else options[name]
            for name, kind in types.items()
            if options[name] is not None
        },
    }


def _search_options(search: Search) -> Config:
    """Return a search as its kind and its fields."""
    # A class that does not define `kind` inherits that of its base class, which does not count.
    kind = getattr(search, "kind", None)
    if kind is None or Search.kinds[kind] is not type(search):
        names = ", ".join(search_class.__name__ for search_class in Search.kinds.values())
        raise ValueError(f"`search` must be one of {names} to be saved. Received: {type(search).__name__}.")
    return {"kind": kind, **dataclasses.asdict(search)}


def _read_search(options: Config, path: Path) -> Search:
    kind = options.pop("kind", None)
    if options.get("coverage_penalty") == 0:  # off, in files of before it was removed
        del options["coverage_penalty"]
    if kind not in [*Search.kinds]:
        raise InputError(f"{path}: `kind` of `search` must be one of {[*Search.kinds]}. Received: {kind!r}.")
    return read_table(json.dumps(options).encode(), path, Search.kinds[kind])
