"""What `decoding.py` measures: shapes, cells and sources. Imports no engine, so its process stays small."""

import argparse
from typing import NamedTuple

import numpy as np

SHAPES: dict[str, dict[str, int]] = {
    "tiny": {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "vocabulary": 50},
    "small": {
        "num_layers": 3,
        "hidden_dim": 256,
        "intermediate_dim": 1024,
        "num_heads": 8,
        "vocabulary": 8000,
    },
    "base": {
        "num_layers": 6,
        "hidden_dim": 512,
        "intermediate_dim": 2048,
        "num_heads": 8,
        "vocabulary": 32000,
    },
}
SEARCHES = {"greedy": 1, "beam": 4}
NUM_SPECIAL = 4
START, END = 2, 3
SOURCE_LENGTH = 32


class Cell(NamedTuple):
    """One measurement: `small:8:beam` generates 32 tokens, `small:1:greedy:64` twice as many."""

    shape: str
    batch: int
    search: str
    length: int = 32

    @property
    def name(self) -> str:
        """What the command line calls it."""
        return ":".join(map(str, self[:3])) + ("" if self.length == 32 else f":{self.length}")


def parse_cell(text: str) -> Cell:
    """Read a cell from the command line.

    Args:
        text: `shape:batch:search` or `shape:batch:search:length`.

    Returns:
        the cell.

    Raises:
        ArgumentTypeError: a part is missing or not known.
    """
    shape, *rest = text.split(":")
    try:
        batch, search, length = int(rest[0]), rest[1], int((*rest, "32")[2])
    except (IndexError, ValueError):
        batch, search, length = 0, "", 0
    if shape not in (*SHAPES, "trained") or search not in SEARCHES or min(batch, length) < 1:
        shapes = ", ".join((*SHAPES, "trained"))
        raise argparse.ArgumentTypeError(
            f"a cell is shape:batch:search, such as small:8:beam, with a shape of {shapes}. Received: {text}."
        )
    return Cell(shape, batch, search, length)


def random_sources(cell: Cell, seed: int) -> list[list[int]]:
    """Draw the sources of a request.

    Args:
        cell: whose shape and batch are used.
        seed: another one, another request.

    Returns:
        32 ids for each, the last of which is the end token.
    """
    rng = np.random.default_rng(seed)
    size = (cell.batch, SOURCE_LENGTH - 1)
    ids = rng.integers(NUM_SPECIAL, SHAPES[cell.shape]["vocabulary"], size)
    return [[*row, END] for row in ids.tolist()]


def padded(rows: list[list[int]]) -> np.ndarray:
    """Pad ids with 0.

    Args:
        rows: ids.

    Returns:
        int32 (b, longest).
    """
    width = max(map(len, rows))
    return np.array([row + [0] * (width - len(row)) for row in rows], "int32")
