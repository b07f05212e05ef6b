"""A translator as a directory: the model, its tokenizers and the search."""

import inspect
import json
from pathlib import Path
from typing import Any

from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.sampling import GreedySearch, SampleSearch
from keras_transformer.decoding.search import Search
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_directory, file_sha256, write_file
from keras_transformer.training.checkpoint_state import load_model, save_model
from keras_transformer.types import SpecialIds

# What can be read back.
SEARCHES: dict[str, Any] = {"beam": BeamSearch, "greedy": GreedySearch, "sample": SampleSearch}


def make_search(beam_size: int, length_penalty: float) -> Search:
    """Choose the search for a beam size.

    Args:
        beam_size: 1 for greedy search.
        length_penalty: the exponent of the length penalty.

    Returns:
        The search.
    """
    if beam_size == 1:
        return GreedySearch(length_penalty=length_penalty)
    return BeamSearch(beam_size, length_penalty=length_penalty)


def change_search(search: Search, beam_size: int | None, length_penalty: float | None) -> Search:
    """Make a search of another beam or length penalty, the rest of which is as it was.

    Args:
        search: greedy or a beam.
        beam_size: 1 for greedy search; None for as many as before.
        length_penalty: the exponent; None for the one before.

    Returns:
        The search. Between a beam and greedy search, the rules for tokens are kept.

    Raises:
        ValueError: a search of another class, or a number out of its range.
    """
    if not isinstance(search, BeamSearch | GreedySearch):
        raise ValueError(f"`search` must be greedy or a beam. Received: {type(search).__name__}.")
    options = search_options(search)
    if length_penalty is not None:
        options["length_penalty"] = length_penalty
    if beam_size not in (None, search.beam_size):
        options = _with_beam(options, beam_size)
    return read_search(options)


def search_options(search: Any) -> dict[str, Any]:
    """Describe a search, to be made again by `read_search`.

    Args:
        search: of one of the classes in `SEARCHES`.

    Returns:
        `kind`, and each argument of the constructor, from the attribute of its name.

    Raises:
        ValueError: the search is of another class.
    """
    kinds = [kind for kind, search_class in SEARCHES.items() if type(search) is search_class]
    if not kinds:
        names = ", ".join(search_class.__name__ for search_class in SEARCHES.values())
        raise ValueError(f"`search` must be one of {names} to be saved. Received: {type(search).__name__}.")
    names_of_arguments = inspect.signature(type(search)).parameters
    values = {name: getattr(search, name) for name in names_of_arguments}
    return {"kind": kinds[0], **values, "constraints": search.constraints.to_dict()}


def read_search(options: dict[str, Any]) -> Search:
    """Make the search that was described.

    Args:
        options: from `search_options`; without a `kind`, the arguments of `make_search`.

    Returns:
        The search.

    Raises:
        TypeError: an argument is missing or unknown.
        ValueError: the kind is unknown, or a value is not allowed.
    """
    options = dict(options)
    if "kind" not in options:
        return make_search(**options)
    kind = options.pop("kind")
    if kind not in SEARCHES:
        raise ValueError(f"The kind of `search` must be one of {sorted(SEARCHES)}. Received: {kind!r}.")
    if isinstance(options.get("special_ids"), list):
        options["special_ids"] = SpecialIds(*options["special_ids"])
    if isinstance(options.get("constraints"), dict):
        options["constraints"] = Constraints(**options["constraints"])
    search: Search = SEARCHES[kind](**options)
    return search


def _with_beam(options: dict[str, Any], beam_size: Any) -> dict[str, Any]:
    """Describe the search of another beam; one that gave all its hypotheses gives all again."""
    kind = "greedy" if beam_size == 1 else "beam"
    num_hypotheses = options.get("num_hypotheses")
    is_all = num_hypotheses in (None, options.get("beam_size"))
    options = {
        **options,
        "kind": kind,
        "beam_size": beam_size,
        "num_hypotheses": None if is_all else min(num_hypotheses, beam_size),
    }
    arguments = inspect.signature(SEARCHES[kind]).parameters
    return {name: options[name] for name in ("kind", *arguments) if name in options}


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
    with atomic_directory(directory, replace=True) as beside:
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
    from keras_transformer.text import load_tokenizer

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
