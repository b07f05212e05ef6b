"""Searches as JSON: the name of the class, and its constructor's arguments."""

import inspect
from typing import Any

from keras_transformer.decoding.beam import BeamSearch
from keras_transformer.decoding.constraints import Constraints
from keras_transformer.decoding.contract import Search, SpecialIds
from keras_transformer.decoding.greedy import GreedySearch
from keras_transformer.decoding.sample_search import SampleSearch

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
