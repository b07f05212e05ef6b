"""Which pairs share a batch, and in which order an epoch has the batches.

Pairs are sorted into buckets by their longer side, and a batch takes as many pairs as its token
budget allows at the upper end of its longest bucket. All this depends on the lengths alone, so the
number of batches is known before training and each epoch has as many; the order follows from the
seed and the number of the epoch, so a resumed run sees the batches that it would have seen.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

Transformation: TypeAlias = Callable[[tf.data.Dataset], tf.data.Dataset]
"""A step of the input pipeline; steps are chained with `dataset.apply`, in reading order."""


class _EpochOrder(NamedTuple):
    """What decides the order of the batches in each iteration over a dataset."""

    shuffle: bool
    seed: int
    first_epoch: int


@dataclasses.dataclass(frozen=True)
class _BatchPlan:
    """The pairs in an order with equal ones next to each other, and where batches of them begin."""

    # In few bytes: with 8 for each, an epoch of 10 million pairs took 0.5 GB more.
    keys: np.ndarray  # what the pairs are sorted by, int16 or int32 (n,)
    splits: np.ndarray  # where batches of the sorted pairs begin, and n at the end: int32 (batches + 1,)
    ends: tuple[int, ...] = ()  # upper ends of the buckets, where batches are padded to them
    tokens_per_batch: int = 0

    def __len__(self) -> int:
        return len(self.splits) - 1

    def ordered(self) -> tf.RaggedTensor:
        """Return batches from short to long: indices of pairs, int32 (number of batches, ragged)."""
        order = np.argsort(self.keys, kind="stable").astype(np.int32)
        return tf.RaggedTensor.from_row_splits(order, self.splits)

    def width(self, longest: tf.Tensor, num_rows: tf.Tensor) -> tf.Tensor:
        """Return the length that a batch is padded to, an int64 scalar, by its longest row."""
        if not self.ends:
            return longest
        ends = tf.constant(self.ends, tf.int64)
        is_wide = ends >= longest
        # A batch of rows of a lower bucket is as wide as all others of so many rows.
        is_full = is_wide & (self.tokens_per_batch // ends <= num_rows)
        # Noise may make a row longer than all ends.
        widths = [tf.boolean_mask(ends, is_full), tf.boolean_mask(ends, is_wide), longest[tf.newaxis]]
        return tf.concat(widths, axis=0)[0]

    def epochs(self, order: _EpochOrder) -> tf.data.Dataset:
        """Make a dataset of indices of pairs, int32 (b,); each iteration over it is the next epoch."""
        if not order.shuffle:
            return tf.data.Dataset.from_tensor_slices(self.ordered())
        # The input pipeline runs on the host, and so must what its functions capture.
        with tf.device("CPU:0"):
            keys, splits = tf.constant(self.keys), tf.constant(self.splits)
            next_epoch = tf.Variable(order.first_epoch, dtype=tf.int64, trainable=False)

        @tf.autograph.experimental.do_not_convert
        def epoch_batches(_: tf.Tensor) -> tf.data.Dataset:
            epoch = next_epoch.assign_add(1) - 1
            epoch_seed = tf.stack([tf.constant(order.seed, tf.int64), epoch])
            return tf.data.Dataset.from_tensor_slices(_shuffle(keys, splits, epoch_seed))

        # A new iteration runs the function of `flat_map` again: that is what counts the epochs.
        epochs = tf.data.Dataset.from_tensors(0).flat_map(epoch_batches)
        return epochs.apply(tf.data.experimental.assert_cardinality(len(self)))


def _shuffle(keys: tf.Tensor, splits: tf.Tensor, seed: tf.Tensor) -> tf.RaggedTensor:
    """Shuffle pairs with equal keys, the rows of each batch, and the batches."""
    # Rejected: `Dataset.shuffle`, which depends on the global seed and starts again in each process.
    pair_seed, row_seed, batch_seed = tf.unstack(tf.random.split(seed, 3))
    batches = tf.RaggedTensor.from_row_splits(_shuffled_order(keys, pair_seed), splits)
    # The rows of a batch too: noise depends on their index, and an epoch may be a single batch.
    rows = _shuffled_order(batches.value_rowids(), row_seed)
    batches = batches.with_flat_values(tf.gather(batches.flat_values, rows))
    order = tf.random.experimental.stateless_shuffle(tf.range(batches.nrows()), batch_seed)
    return tf.gather(batches, order)


def _shuffled_order(keys: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Sort by key, in a random order where keys are equal: indices, int32 (n,)."""
    shuffled = tf.random.experimental.stateless_shuffle(tf.range(tf.size(keys)), seed)
    return tf.gather(shuffled, tf.argsort(tf.gather(keys, shuffled), stable=True))


def batch_shapes(
    lengths: np.ndarray, tokens_per_batch: int, bucket_boundaries: Sequence[int] | None = None
) -> list[tuple[int, int]]:
    """Return the shapes of the batches that a dataset with `pad_to_bucket_boundary=True` has.

    XLA compiles a step of training once for each. Noise may add some, since it changes lengths.

    Args:
        lengths: Lengths of each example, integers `(n, number of sides)`, as `EncodedPairs.lengths` returns.
        tokens_per_batch: As for the dataset.
        bucket_boundaries: Likewise.

    Returns:
        Each `(b, t)` once, from short to long.

    Raises:
        ValueError: If a value is out of range.

    Example:
        >>> batch_shapes(np.array([[3], [5], [9], [12]] * 50), tokens_per_batch=100)
        [(12, 8), (10, 10), (8, 12), (6, 12)]
    """
    plan = _plan_batches(lengths, bucket_boundaries, tokens_per_batch, padded=True)
    longest = np.sort(lengths.max(axis=1))[plan.splits[1:] - 1]
    shapes = [
        (int(rows), int(plan.width(tf.constant(length, tf.int64), tf.constant(rows, tf.int64))))
        for rows, length in dict.fromkeys(zip(np.diff(plan.splits), longest, strict=True))
    ]
    return list(dict.fromkeys(shapes))


def _plan_batches(
    lengths: np.ndarray, boundaries: Sequence[int] | None, tokens_per_batch: int, *, padded: bool = False
) -> _BatchPlan:
    """Sort pairs of lengths `(n, sides)` into buckets, the last with the longest, and cut these into batches.

    Batches that are padded to the ends of their buckets have few shapes: one for each bucket, and the last.
    """
    longest = lengths.max(axis=1)
    boundaries = _choose_boundaries(boundaries, int(longest.max()), coarse=padded)
    # Rejected: `bucket_by_sequence_length`, whose leftovers make many small batches.
    buckets, target_buckets = (
        np.searchsorted(boundaries, each).astype(np.int32) for each in (longest, lengths[:, -1])
    )
    # Within a bucket by the target: padding falls from 20 to 1 % of CMUdict's target positions.
    key_type = np.int16 if len(boundaries) ** 2 < 2**15 else np.int32
    keys = (buckets * np.int32(len(boundaries)) + target_buckets).astype(key_type)
    # How many tokens each pair is padded to, from short to long: int64 (n,)
    counts = np.bincount(buckets, minlength=len(boundaries))
    sorted_ends = np.repeat(np.asarray(boundaries, np.int64), counts)
    _check_budget(int(sorted_ends[-1]), tokens_per_batch)
    if padded:
        ends = tuple(int(end) for end in np.unique(sorted_ends))
        splits = _splits_of_full_batches(sorted_ends, ends, tokens_per_batch)
        return _BatchPlan(keys, np.asarray(splits, np.int32), ends, tokens_per_batch)
    # The last pairs of a bucket fill up the first batch of the next one, so that only one batch of an epoch
    # is smaller than it could be.
    splits = [0]
    while splits[-1] < len(sorted_ends):
        start = splits[-1]
        most = sorted_ends[start : start + tokens_per_batch // sorted_ends[start]]
        # Of the batches that end at each pair. The longest pair comes last, and all are padded to it.
        num_tokens = most * np.arange(1, len(most) + 1)
        splits.append(start + int(np.searchsorted(num_tokens, tokens_per_batch, side="right")))
    return _BatchPlan(keys, np.asarray(splits, np.int32))


def _splits_of_full_batches(
    sorted_ends: np.ndarray, ends: tuple[int, ...], tokens_per_batch: int
) -> list[int]:
    """Cut pairs into batches that are as full as one of a bucket can be, but for the last."""
    # The last pairs of a bucket are too few for a batch of it, which would be another shape to compile: they
    # go into one of the next bucket, whose batches have fewer rows, and are padded as its pairs are.
    splits, num_pairs = [0], len(sorted_ends)
    while splits[-1] < num_pairs:
        start = splits[-1]
        stops = ((start + tokens_per_batch // end, end) for end in ends if end >= sorted_ends[start])
        full = (stop for stop, end in stops if stop <= num_pairs and sorted_ends[stop - 1] <= end)
        splits.append(next(full, num_pairs))
    return splits


def _check_budget(longest: int, tokens_per_batch: int) -> None:
    if tokens_per_batch < longest:
        raise ValueError(
            "`tokens_per_batch` must hold the longest pair, padded to its bucket. "
            f"Received: tokens_per_batch={tokens_per_batch}, longest={longest} tokens."
        )


def _choose_boundaries(
    boundaries: Sequence[int] | None, max_length: int, *, coarse: bool = False
) -> tuple[int, ...]:
    """Return upper ends of buckets, the last at least `max_length`; checked, or by default."""
    # Default ones rise from 4 in steps of a sixteenth, at least of 1; coarse ones, where each boundary is a
    # shape to compile for, from 8 in steps of a quarter.
    if boundaries is None:
        parts, ends = (4, [8]) if coarse else (16, [4])
        while ends[-1] < max_length:
            ends.append(ends[-1] + -(-ends[-1] // parts))
        return (*ends[:-1], max_length)
    if not boundaries or boundaries[0] < 1 or any(b <= a for a, b in itertools.pairwise(boundaries)):
        raise ValueError(
            "`bucket_boundaries` must be positive and increasing. "
            f"Received: bucket_boundaries={list(boundaries)}."
        )
    return (*boundaries, max_length) if boundaries[-1] < max_length else tuple(boundaries)
