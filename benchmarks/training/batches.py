"""Random batches for the training benchmarks. Imports no engine."""

from typing import NamedTuple

import numpy as np

START, FIRST_TOKEN = 2, 4
VOCABULARY = {"tiny": 50, "small": 8_000, "base": 8_000}
SIZES = {"tiny": (4, 5), "small": (64, 32), "base": (16, 32)}
"""Pairs of a batch and tokens of each side, by the shape of the model."""


class Batch(NamedTuple):
    """Token ids, int32 (b, t) each, without padding."""

    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray


def tokens_of(shape: str) -> int:
    """Return the target tokens of a batch."""
    pairs, length = SIZES[shape]
    return pairs * length


def random_batches(shape: str, num_batches: int, seed: int) -> list[Batch]:
    """Draw batches for teacher forcing: the target is the labels, shifted by one."""
    size = (num_batches, *SIZES[shape])
    draw = np.random.default_rng(seed)
    sources, labels = draw.integers(FIRST_TOKEN, VOCABULARY[shape], (2, *size), dtype="int32")
    targets = np.concatenate([np.full_like(labels[..., :1], START), labels[..., :-1]], axis=-1)
    return [Batch(*arrays) for arrays in zip(sources, targets, labels, strict=True)]
