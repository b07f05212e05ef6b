"""Which lengths share a batch, and how many pairs each batch holds.

Pairs are sorted into buckets by length, and a batch takes as many pairs as its token
budget allows at the upper end of its longest bucket. All this depends on the lengths
alone, not on the order of the pairs, so it is worked out once and every epoch has the
same number of batches.
"""

import itertools
from collections.abc import Sequence

import numpy as np


def default_bucket_boundaries(max_length: int, *, coarse: bool = False) -> tuple[int, ...]:
    """Upper ends of the buckets: from 4 in steps of a sixteenth, at least of 1.

    Args:
        max_length: the longest length; the last boundary.
        coarse: from 8 in steps of a quarter, where each boundary is a shape to compile for.

    Returns:
        increasing lengths.
    """
    parts, boundaries = (4, [8]) if coarse else (16, [4])
    while boundaries[-1] < max_length:
        boundaries.append(boundaries[-1] + -(-boundaries[-1] // parts))
    return (*boundaries[:-1], max_length)


def check_bucket_boundaries(boundaries: Sequence[int], max_length: int) -> tuple[int, ...]:
    """Checks boundaries and adds a last bucket where they end below `max_length`.

    Args:
        boundaries: upper ends of the buckets.
        max_length: a length that must have a bucket.

    Returns:
        the boundaries, the last at least `max_length`.

    Raises:
        ValueError: the boundaries are not positive and increasing.
    """
    if not boundaries or boundaries[0] < 1 or any(b <= a for a, b in itertools.pairwise(boundaries)):
        raise ValueError(
            "`bucket_boundaries` must be positive and increasing. "
            f"Received: bucket_boundaries={list(boundaries)}."
        )
    return (*boundaries, max_length) if boundaries[-1] < max_length else tuple(boundaries)


def choose_bucket_boundaries(
    boundaries: Sequence[int] | None, max_length: int, *, coarse: bool = False
) -> tuple[int, ...]:
    """Checks boundaries, or gives the default ones.

    Args:
        boundaries: see `check_bucket_boundaries`, or None.
        max_length: see there.
        coarse: see `default_bucket_boundaries`.

    Returns:
        the boundaries, the last at least `max_length`.

    Raises:
        ValueError: the boundaries are not positive and increasing.
    """
    if boundaries is None:
        return default_bucket_boundaries(max_length, coarse=coarse)
    return check_bucket_boundaries(boundaries, max_length)


def bucket_ends(lengths: np.ndarray, boundaries: Sequence[int]) -> np.ndarray:
    """Rounds each length up to a boundary.

    Args:
        lengths: int (n,), none above the last boundary.
        boundaries: upper ends of the buckets, increasing.

    Returns:
        int64 (n,).
    """
    return np.asarray(boundaries, np.int64)[np.searchsorted(boundaries, lengths)]


def cut_batches(sorted_ends: np.ndarray, tokens_per_batch: int) -> np.ndarray:
    """Cuts pairs sorted by bucket into batches of at most `tokens_per_batch` padded tokens.

    The last pairs of a bucket fill up the first batch of the next one, so that only one
    batch of an epoch is smaller than it could be.

    Args:
        sorted_ends: bucket end of each pair, increasing, int64 (n,).
        tokens_per_batch: most tokens of either side of a batch, padding included.

    Returns:
        where batches start, and n at the end: int64 (number of batches + 1,).

    Raises:
        ValueError: the longest pair alone is above the budget.
    """
    if tokens_per_batch < sorted_ends[-1]:
        raise ValueError(
            "`tokens_per_batch` must hold the longest pair, padded to its bucket. "
            f"Received: tokens_per_batch={tokens_per_batch}, longest={sorted_ends[-1]} tokens."
        )
    splits = [0]
    while splits[-1] < len(sorted_ends):
        start = splits[-1]
        most = sorted_ends[start : start + tokens_per_batch // sorted_ends[start]]
        num_tokens = most * np.arange(1, len(most) + 1)  # of the batches that end at each pair
        splits.append(start + int(np.searchsorted(num_tokens, tokens_per_batch, side="right")))
    return np.asarray(splits, np.int64)
