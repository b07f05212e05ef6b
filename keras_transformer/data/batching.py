"""Length bucketing: which examples share a batch, and the order of the batches in an epoch.

Examples are sorted into buckets by their longer side. A batch holds as many examples as fit the token budget
when all are padded to the upper end of their longest bucket. The number of batches depends only on the
lengths, so it is known before training and equal in every epoch. The order depends only on the seed and the
epoch number, so a resumed run continues with the same batches.
"""

import abc
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import check_flags, check_number, check_positive
from keras_transformer.errors import InputError
from keras_transformer.types import SPECIAL_IDS

Transformation: TypeAlias = Callable[[tf.data.Dataset], tf.data.Dataset]
"""A step of the input pipeline, for `dataset.apply`."""

# Number of prefetched batches.
_NUM_READY = 8


class _EpochOrder(NamedTuple):
    """Shuffling options of a dataset; they determine the order of the batches in each epoch."""

    shuffle: bool
    seed: int
    first_epoch: int


@dataclasses.dataclass(frozen=True)
class _BatchPlan:
    """The batches of a dataset: sort keys of the examples, and where batches of the sorted examples begin."""

    # Small types: with 8 bytes each, an epoch of 10 million pairs took 0.5 GB more.
    keys: np.ndarray  # sort keys of the examples, int16 or int32 (n,)
    splits: np.ndarray  # start of each batch in the sorted examples, then n: int32 (batches + 1,)
    ends: tuple[int, ...] = ()  # upper ends of the buckets, if batches are padded to them
    tokens_per_batch: int = 0

    def __len__(self) -> int:
        return len(self.splits) - 1

    def ordered(self) -> tf.RaggedTensor:
        """Return the batches from short to long: example indices, int32 (number of batches, ragged)."""
        order = np.argsort(self.keys, kind="stable").astype(np.int32)
        return tf.RaggedTensor.from_row_splits(order, self.splits)

    def width(self, longest: tf.Tensor, num_rows: tf.Tensor) -> tf.Tensor:
        """Return the padded length of a batch, an int64 scalar, from its longest row."""
        ends = tf.constant(self.ends, tf.int64)
        is_wide = ends >= longest
        # Batches with the same number of rows get the same width, even if all rows are from a lower bucket.
        is_full = is_wide & (self.tokens_per_batch // ends <= num_rows)
        # Noise may make a row longer than the last bucket.
        widths = [tf.boolean_mask(ends, is_full), tf.boolean_mask(ends, is_wide), longest[tf.newaxis]]
        return tf.concat(widths, axis=0)[0]

    def epochs(self, order: _EpochOrder) -> tf.data.Dataset:
        """Build a dataset of example indices, int32 (b,). Each iteration is the next epoch."""
        if not order.shuffle:
            return tf.data.Dataset.from_tensor_slices(self.ordered())
        # The input pipeline runs on the CPU, so the tensors that it captures must be there.
        with tf.device("CPU:0"):
            keys, splits = tf.constant(self.keys), tf.constant(self.splits)
            next_epoch = tf.Variable(order.first_epoch, dtype=tf.int64, trainable=False)

        @tf.autograph.experimental.do_not_convert
        def epoch_batches(_: tf.Tensor) -> tf.data.Dataset:
            epoch = next_epoch.assign_add(1) - 1
            epoch_seed = tf.stack([tf.constant(order.seed, tf.int64), epoch])
            return tf.data.Dataset.from_tensor_slices(_shuffle(keys, splits, epoch_seed))

        # Each iteration runs the function of `flat_map` again, which counts the epochs.
        epochs = tf.data.Dataset.from_tensors(0).flat_map(epoch_batches)
        return epochs.apply(tf.data.experimental.assert_cardinality(len(self)))


def _shuffle(keys: tf.Tensor, splits: tf.Tensor, seed: tf.Tensor) -> tf.RaggedTensor:
    """Shuffle examples with equal keys, the rows of each batch, and the batches."""
    # Rejected: `Dataset.shuffle`, which depends on the global seed and restarts in each process.
    pair_seed, row_seed, batch_seed = tf.unstack(tf.random.split(seed, 3))
    batches = tf.RaggedTensor.from_row_splits(_shuffled_order(keys, pair_seed), splits)
    # Rows are shuffled too, because noise depends on their index and an epoch may be a single batch.
    rows = _shuffled_order(batches.value_rowids(), row_seed)
    batches = batches.with_flat_values(tf.gather(batches.flat_values, rows))
    order = tf.random.experimental.stateless_shuffle(tf.range(batches.nrows()), batch_seed)
    return tf.gather(batches, order)


def _shuffled_order(keys: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Return the indices that sort by key, in random order among equal keys, int32 (n,)."""
    shuffled = tf.random.experimental.stateless_shuffle(tf.range(tf.size(keys)), seed)
    return tf.gather(shuffled, tf.argsort(tf.gather(keys, shuffled), stable=True))


def _plan_batches(
    lengths: np.ndarray, boundaries: Sequence[int] | None, tokens_per_batch: int, *, padded: bool = False
) -> _BatchPlan:
    """Sort examples of lengths `(n, sides)` into buckets, and cut the buckets into batches.

    Batches padded to their bucket have few shapes: one per bucket, and the last batch.
    """
    longest = lengths.max(axis=1)
    boundaries = _choose_boundaries(boundaries, int(longest.max()), coarse=padded)
    # Rejected: `bucket_by_sequence_length`, which leaves a small batch per bucket.
    buckets, target_buckets = (
        np.searchsorted(boundaries, each).astype(np.int32) for each in (longest, lengths[:, -1])
    )
    # Sorting by target length within a bucket reduces padding from 20 to 1 % of CMUdict's target positions.
    key_type = np.int16 if len(boundaries) ** 2 < 2**15 else np.int32
    keys = (buckets * np.int32(len(boundaries)) + target_buckets).astype(key_type)
    # Padded length of each example, from short to long: int64 (n,)
    counts = np.bincount(buckets, minlength=len(boundaries))
    sorted_ends = np.repeat(np.asarray(boundaries, np.int64), counts)
    _check_budget(int(sorted_ends[-1]), tokens_per_batch)
    if padded:
        ends = tuple(int(end) for end in np.unique(sorted_ends))
        splits = _splits_of_full_batches(sorted_ends, ends, tokens_per_batch)
        return _BatchPlan(keys, np.asarray(splits, np.int32), ends, tokens_per_batch)
    # The last examples of a bucket fill the first batch of the next bucket, so only one batch of an epoch is
    # not full.
    splits = [0]
    while splits[-1] < len(sorted_ends):
        start = splits[-1]
        most = sorted_ends[start : start + tokens_per_batch // sorted_ends[start]]
        # Size of the batch if it ended at each example. All are padded to the last, which is the longest.
        num_tokens = most * np.arange(1, len(most) + 1)
        splits.append(start + int(np.searchsorted(num_tokens, tokens_per_batch, side="right")))
    return _BatchPlan(keys, np.asarray(splits, np.int32))


def _splits_of_full_batches(
    sorted_ends: np.ndarray, ends: tuple[int, ...], tokens_per_batch: int
) -> list[int]:
    """Cut sorted examples into batches that are full for their bucket, except the last."""
    # A smaller batch for the last examples of a bucket would be another shape to compile. Instead, they are
    # padded to the next bucket and join its first batch, which has fewer rows.
    splits, num_pairs = [0], len(sorted_ends)
    while splits[-1] < num_pairs:
        start = splits[-1]
        stops = ((start + tokens_per_batch // end, end) for end in ends if end >= sorted_ends[start])
        full = (stop for stop, end in stops if stop <= num_pairs and sorted_ends[stop - 1] <= end)
        splits.append(next(full, num_pairs))
    return splits


def _check_budget(longest: int, tokens_per_batch: int) -> None:
    if tokens_per_batch < longest:
        raise InputError(
            "`tokens_per_batch` must hold the longest example, padded to its bucket. "
            f"Received: tokens_per_batch={tokens_per_batch}, longest={longest} tokens."
        )


def _choose_boundaries(
    boundaries: Sequence[int] | None, max_length: int, *, coarse: bool = False
) -> tuple[int, ...]:
    """Return the given or default upper ends of the buckets. The last is at least `max_length`."""
    # By default, each boundary is 1/16 longer than the last, at least 1, from 4. If each boundary is a shape
    # to compile (`coarse`): 1/4 longer, from 8.
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


def _checked_order(
    shuffle: bool, seed: int, first_epoch: int, tokens_per_batch: int, *, padded: bool
) -> _EpochOrder:
    """Check the options of a dataset before its examples are encoded, and return their order."""
    check_flags(shuffle=shuffle, pad_to_bucket_boundary=padded)
    check_positive(tokens_per_batch=tokens_per_batch)
    check_number(whole=True, seed=seed, first_epoch=first_epoch)
    return _EpochOrder(shuffle, seed, first_epoch)


class _Encoded(abc.ABC):
    """Encoded examples, from which batches are made."""

    @property
    def _label_padding(self) -> int:
        return SPECIAL_IDS.pad

    @abc.abstractmethod
    def lengths(self) -> np.ndarray:
        """Return the lengths of each example with its special tokens, int32 (n, sides)."""

    @abc.abstractmethod
    def _rows(self, indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return rows of examples, as the steps before padding change them."""

    def _example(self, *rows: Any) -> tuple[Any, tf.Tensor]:
        """Return the inputs and labels of rows; those that are ragged are padded next."""
        inputs, labels = rows
        return inputs, labels

    def _in_batches(
        self,
        tokens_per_batch: int,
        order: _EpochOrder,
        *,
        boundaries: Sequence[int] | None = None,
        padded: bool,
        steps: Sequence[Transformation] = (),
    ) -> tf.data.Dataset:
        """Build batches of examples of similar length."""
        plan = _plan_batches(self.lengths(), boundaries, tokens_per_batch, padded=padded)
        batches = plan.epochs(order)

        @tf.autograph.experimental.do_not_convert
        def example(*rows: tf.RaggedTensor) -> tuple[Any, tf.Tensor]:
            inputs, labels = self._example(*rows)
            width = None
            if padded:
                parts = tf.nest.flatten([inputs, labels])
                ragged = [each for each in parts if isinstance(each, tf.RaggedTensor)]
                longest = tf.reduce_max([each.bounding_shape(axis=1) for each in ragged])
                width = plan.width(longest, ragged[0].nrows())
            inputs = tf.nest.map_structure(lambda each: _pad(each, width, SPECIAL_IDS.pad), inputs)
            return inputs, _pad(labels, width, self._label_padding)

        dataset = batches.map(self._rows, num_parallel_calls=tf.data.AUTOTUNE)
        for step in steps:
            dataset = dataset.apply(step)
        dataset = dataset.map(example, num_parallel_calls=tf.data.AUTOTUNE)
        return _keep_ready(dataset.apply(tf.data.experimental.assert_cardinality(batches.cardinality())))


def _pad(rows: tf.RaggedTensor | tf.Tensor, width: tf.Tensor | None, padding: int) -> tf.Tensor:
    """Pad rows `(b, ragged)`, or frames `(b, ragged, w)`, to a width or to the longest row."""
    if not isinstance(rows, tf.RaggedTensor):
        return rows
    rest = rows.shape[2:]
    shape = None if width is None else tf.stack([rows.nrows(), width, *rest])
    values = rows.flat_values
    return tf.ensure_shape(rows.to_tensor(tf.cast(padding, values.dtype), shape=shape), [None, None, *rest])


def _keep_ready(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Prefetch batches, with TensorFlow's autotuner turned off."""
    # At the end of each epoch, an iterator waits for the next period of the autotuner, which grows from 10 ms
    # to a minute: 16 steps of 0.31 s took 10.2 s.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(_NUM_READY).with_options(options)
