"""The names that the package promises, listed in `public_names.txt`: a line for each room."""

import importlib
from importlib import metadata
from pathlib import Path

import keras_transformer as kt


def test_the_public_names_are_those_of_the_list(exports: dict[str, set[str]]) -> None:
    """A name that comes, goes or changes is a decision: edit the list, and tell of it in CHANGELOG.md."""
    lines = Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").splitlines()
    listed = {room: names.split() for room, names in (line.split(": ") for line in lines)}
    assert {room: sorted(names) for room, names in exports.items()} == listed


def test_dir_shows_them_and_nothing_else(exports: dict[str, set[str]]) -> None:
    for room, names in exports.items():
        if names:  # the command line is no library
            assert dir(importlib.import_module(room)) == sorted(names)


def test_the_version_is_that_of_the_project() -> None:
    assert kt.__version__ == metadata.version("keras-transformer")
