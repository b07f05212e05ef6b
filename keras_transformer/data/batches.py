"""Which lengths share a batch, and how many pairs each batch holds.

Pairs are sorted into buckets by length, and a batch takes as many pairs as its token
budget allows at the upper end of its longest bucket. All this depends on the lengths
alone, not on the order of the pairs, so it is worked out once and every epoch has the
same number of batches.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf


def ordered_batches(keys: np.ndarray, splits: np.ndarray) -> tf.data.Dataset:
    """Batches from short to long, the same in each epoch.

    Args:
        keys: what the pairs are sorted by, int64 (n,).
        splits: where batches of the sorted pairs start, int64 (number of batches + 1,).

    Returns:
        positions of pairs, each an int64 (b,).
    """
    order = np.argsort(keys, kind="stable")
    return tf.data.Dataset.from_tensor_slices(tf.RaggedTensor.from_row_splits(order, splits))


def shuffled_batches(
    keys: np.ndarray, splits: np.ndarray, *, seed: int, first_epoch: int = 0
) -> tf.data.Dataset:
    """Batches of pairs that are shuffled where their keys are equal; their order and their rows are random.

    The order is a pure function of `seed` and the number of the epoch. `Dataset.shuffle` also
    depends on the global seed and starts anew in each process, so that a resumed run would see
    the order of epoch 0 again.

    Args:
        keys: what the pairs are sorted by, int64 (n,).
        splits: where batches of the sorted pairs start, int64 (number of batches + 1,).
        seed: seed of all epochs.
        first_epoch: the epoch of the first iteration; each further iteration is the next epoch.

    Returns:
        positions of pairs, each an int64 (b,).
    """
    # The input pipeline runs on the host, and so must what its functions capture.
    with tf.device("CPU:0"):
        sort_keys, row_splits = tf.constant(keys), tf.constant(splits)
        next_epoch = tf.Variable(first_epoch, dtype=tf.int64, trainable=False)

    def epoch_batches(_: tf.Tensor) -> tf.data.Dataset:
        """Draw the batches of the next epoch."""
        epoch = next_epoch.assign_add(1) - 1
        return tf.data.Dataset.from_tensor_slices(
            shuffle_batches(sort_keys, row_splits, tf.stack([tf.constant(seed, tf.int64), epoch]))
        )

    # A new iteration runs the function of `flat_map` again: that is what counts the epochs.
    return tf.data.Dataset.from_tensors(0).flat_map(epoch_batches)


def shuffle_batches(keys: tf.Tensor, splits: tf.Tensor, seed: tf.Tensor) -> tf.RaggedTensor:
    """Draws the batches of one epoch.

    Args:
        keys: what the pairs are sorted by, int64 (n,).
        splits: where batches of the sorted pairs start, int64 (number of batches + 1,).
        seed: int64 (2,).

    Returns:
        positions of pairs, int64 (number of batches, ragged).
    """
    pair_seed, row_seed, batch_seed = tf.unstack(tf.random.split(seed, 3))
    batches = tf.RaggedTensor.from_row_splits(_shuffled_order(keys, pair_seed), splits)
    # Rows change places in their batch as well: noise goes by them, and an epoch may be a single batch.
    places = _shuffled_order(batches.value_rowids(), row_seed)
    batches = batches.with_flat_values(tf.gather(batches.flat_values, places))
    order = tf.random.experimental.stateless_shuffle(tf.range(batches.nrows()), batch_seed)
    return tf.gather(batches, order)


def _shuffled_order(keys: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Sort by key, in a random order where keys are equal; gives positions, int64 (n,)."""
    shuffled = tf.random.experimental.stateless_shuffle(tf.range(tf.size(keys, tf.int64)), seed)
    return tf.gather(shuffled, tf.argsort(tf.gather(keys, shuffled), stable=True))


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
