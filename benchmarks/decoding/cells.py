"""Cells of the decoding benchmarks: a model, a number of sentences and a search. Imports no engine."""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import SHAPES

VOCABULARY = {"tiny": 50, "small": 8_000, "base": 32_000}
SEARCHES = {"greedy": 1, "beam": 4}
LENGTH = 32
"""Tokens of each random source and output, the end token of a source included."""


class Cell(NamedTuple):
    """One measurement: `small:32:beam` decodes 32 sentences with the model `small` and four beams."""

    shape: str
    batch: int
    search: str

    @property
    def name(self) -> str:
        """The cell as on the command line."""
        return ":".join(map(str, self))


def parse_cell(text: str) -> Cell:
    """Read `shape:batch:search`."""
    shape, batch, search = (*text.split(":"), "", "")[:3]
    if shape not in (*SHAPES, "trained") or search not in SEARCHES or not batch.isdigit() or batch == "0":
        raise argparse.ArgumentTypeError(
            f"a cell is shape:batch:search, such as small:32:beam, with a shape of "
            f"{', '.join((*SHAPES, 'trained'))}. Received: {text}."
        )
    return Cell(shape, int(batch), search)


class Sources:
    """The sources that `prepare` wrote for a shape: texts, and token ids with the end token."""

    def __init__(self, directory: Path) -> None:
        content = json.loads((directory / "sources.json").read_text(encoding="utf-8"))
        self.texts: list[str] = content["texts"]
        self.ids: list[list[int]] = content["ids"]
        self.max_length: int = content["max_length"]

    @staticmethod
    def write(directory: Path, texts: list[str], ids: list[list[int]], max_length: int) -> None:
        """Write sources, and the limit of their outputs, in the order of their lengths."""
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        content = {
            "texts": [texts[row] for row in order],
            "ids": [ids[row] for row in order],
            "max_length": max_length,
        }
        (directory / "sources.json").write_text(json.dumps(content), encoding="utf-8")
