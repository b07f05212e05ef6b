"""The names that the package promises, listed in `public_names.txt`: a line for each room."""

from pathlib import Path

MAX_NAMES = 130  # below the top level


def test_the_public_names_are_those_of_the_list(exports: dict[str, set[str]]) -> None:
    """A name that comes, goes or changes is a decision: edit the list, and tell of it in CHANGELOG.md."""
    lines = Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").splitlines()
    listed = {room: names.split() for room, names in (line.split(": ") for line in lines)}
    assert {room: sorted(names) for room, names in exports.items()} == listed


def test_there_are_few(exports: dict[str, set[str]]) -> None:
    counts = {room: len(names) for room, names in exports.items() if "." in room}
    assert sum(counts.values()) <= MAX_NAMES, counts
