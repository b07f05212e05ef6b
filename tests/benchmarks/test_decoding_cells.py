"""Cells are read from the command line, and sources have the length that the table says."""

import argparse
import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def cells(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the program."""
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module("decoding_cells")


@pytest.mark.parametrize("text", ["small:8:beam", "base:1:greedy:256"])
def test_a_cell_has_its_name_back(cells: ModuleType, text: str) -> None:
    assert cells.parse_cell(text).name == text


@pytest.mark.parametrize("text", ["small", "huge:1:greedy", "small:0:greedy", "small:1:best", "small:x:beam"])
def test_mistakes_are_named(cells: ModuleType, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"such as small:8:beam.* Received: {text}"):
        cells.parse_cell(text)


def test_sources_are_ended_and_drawn_by_their_seed(cells: ModuleType) -> None:
    cell = cells.parse_cell("tiny:3:greedy")
    rows = cells.random_sources(cell, 5)
    assert rows == cells.random_sources(cell, 5) != cells.random_sources(cell, 6)
    assert [len(row) for row in rows] == [32] * 3
    assert all(row[-1] == 3 and min(row[:-1]) >= 4 and max(row) < 50 for row in rows)


def test_padding(cells: ModuleType) -> None:
    assert cells.padded([[5, 3], [3], [6, 7, 3]]).tolist() == [[5, 3, 0], [3, 0, 0], [6, 7, 3]]
