"""Sequence packing of pairs: several in each row of one length, for a `Transformer` that is `packed`."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.data.batches import ordered_batches, shuffled_batches
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.transformations import Example, keep_ready
from keras_transformer.text import SPECIAL_IDS


def pack_texts(token_ids: tf.RaggedTensor, length: int) -> tf.data.Dataset:
    """Puts texts one after the other into rows of one length, without padding between them.

    A row may begin and end within a text, and its tokens attend to the texts before them in the row, as in
    Brown et al. 2020, "Language Models are Few-Shot Learners", appendix B. Only the last row is padded.
    Pairs of an encoder-decoder go through `packed_dataset`.

    Args:
        token_ids: int32 (n, ragged), as `Tokenizer.tokenize` gives them.
        length: tokens of a row, special ones included.

    Returns:
        rows `(inputs, labels)`, int32 (length,) each, in order: in the inputs a start token before each text,
        in the labels an end token after it. What remains is to shuffle and to batch them.

    Raises:
        ValueError: a length below 1.

    Example:
        >>> texts = tf.ragged.constant([[5, 6, 7], [8]], dtype=tf.int32)
        >>> for inputs, labels in pack_texts(texts, 4):
        ...     print(inputs.numpy(), labels.numpy())
        [2 5 6 7] [5 6 7 3]
        [2 8 0 0] [8 3 0 0]
    """
    if length < 1:
        raise ValueError(f"`length` must be at least 1. Received: length={length}.")
    start, end = (
        tf.fill([token_ids.nrows(), 1], token_id) for token_id in (SPECIAL_IDS.start, SPECIAL_IDS.end)
    )  # (n, 1)
    sides = tf.concat([start, token_ids], axis=1), tf.concat([token_ids, end], axis=1)
    return tf.data.Dataset.from_tensor_slices(tuple(_fill_rows(side.flat_values, length) for side in sides))


def _fill_rows(stream: tf.Tensor, length: int) -> tf.Tensor:
    """Cut int32 (m,) into rows `(ceil(m / length), length)`."""
    padding = -tf.size(stream) % length
    return tf.reshape(tf.pad(stream, [[0, padding]], constant_values=SPECIAL_IDS.pad), (-1, length))


_NUM_OPEN = 64
"""Rows that are looked at for room for a pair."""


class PackedRows(NamedTuple):
    """Which pairs share a row."""

    pairs: np.ndarray
    """The pairs of the first row, then those of the second, int64 (n,)."""
    splits: np.ndarray
    """Where rows begin, and n at the end: int64 (number of rows + 1,)."""


def packed_dataset(
    encoded: EncodedPairs,
    packed_length: int = 256,
    *,
    tokens_per_batch: int = 4096,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
) -> tf.data.Dataset:
    """Makes a dataset of rows that hold several pairs each, all batches of one shape.

    Batches of like lengths (`encoded_dataset`) have as little padding, but many shapes. Where each shape is
    compiled anew, as on a TPU, one is better. Train a `Transformer(..., packed=True)`: it keeps the pairs of
    a row apart, so that each gets the same logits as in a row of its own.

    Which pairs share a row depends on `seed`, and is the same in each epoch; the order of rows depends on
    the number of the epoch too, as in `encoded_dataset`. The last batch is filled with rows of padding.

    Args:
        encoded: the pairs.
        packed_length: tokens of a row, on either side.
        tokens_per_batch: most tokens of a batch on either side.
        shuffle: whether each epoch has an order of its own.
        seed: of the order.
        first_epoch: epoch of the first iteration.

    Returns:
        `(inputs, labels)`, int32 (b, packed_length) each: `encoder_token_ids`, `decoder_token_ids`, and their
        `encoder_segment_ids` and `decoder_segment_ids`, which count the pairs of a row from 1.

    Raises:
        ValueError: a pair is longer than a row, or a row than a batch.

    Example:
        >>> ids = tf.ragged.constant([[5, 6], [7], [8]], dtype=tf.int32)
        >>> pairs = EncodedPairs(source=ids, target=ids)
        >>> for inputs, labels in packed_dataset(pairs, 5, tokens_per_batch=5, shuffle=False):
        ...     print(labels.numpy()[0], inputs["decoder_segment_ids"].numpy()[0])
        [5 6 3 7 3] [1 1 1 2 2]
        [8 3 0 0 0] [1 1 0 0 0]
    """
    lengths = np.stack([encoded.source_lengths(), encoded.target_lengths()], axis=1)  # (n, 2)
    longest = lengths.max()
    if not longest <= packed_length <= tokens_per_batch:
        raise ValueError(
            "`packed_length` must hold the longest pair, and `tokens_per_batch` a row. Received: "
            f"packed_length={packed_length}, tokens_per_batch={tokens_per_batch}, a pair of {longest} tokens."
        )
    order = np.random.default_rng(seed).permutation(len(lengths)) if shuffle else np.arange(len(lengths))
    rows = pack_rows(lengths, order, packed_length)
    num_rows, batch_size = len(rows.splits) - 1, tokens_per_batch // packed_length
    keys, splits = np.zeros(num_rows, np.int64), np.append(np.arange(0, num_rows, batch_size), num_rows)
    if shuffle:
        batches = shuffled_batches(keys, splits, seed=seed, first_epoch=first_epoch)
    else:
        batches = ordered_batches(keys, splits)
    return (
        batches.map(_Filling(encoded, rows, (batch_size, packed_length)), num_parallel_calls=tf.data.AUTOTUNE)
        .apply(tf.data.experimental.assert_cardinality(len(splits) - 1))
        .apply(keep_ready)
    )


def pack_rows(lengths: np.ndarray, order: Iterable[int], length: int) -> PackedRows:
    """Puts each pair into the first of the open rows that has room for it.

    Args:
        lengths: tokens of source and target of each pair, int64 (n, 2); none is above `length`.
        order: in which the pairs are taken, n of them.
        length: tokens of a row, on either side.

    Returns:
        the rows.
    """
    rows: list[list[int]] = []
    open_rows: dict[int, tuple[int, int]] = {}  # the room on both sides of the latest rows
    for pair in order:
        source, target = (int(tokens) for tokens in lengths[pair])
        fitting = (row for row, room in open_rows.items() if source <= room[0] and target <= room[1])
        row = next(fitting, len(rows))
        if row == len(rows):
            rows.append([])
            open_rows[row] = (length, length)
        rows[row].append(int(pair))
        room = open_rows[row]
        open_rows[row] = (room[0] - source, room[1] - target)
        if len(open_rows) > _NUM_OPEN:
            del open_rows[next(iter(open_rows))]
    splits = np.cumsum([0, *map(len, rows)])
    return PackedRows(np.fromiter(itertools.chain(*rows), np.int64), splits.astype(np.int64))


class _Filling:
    """Turns the numbers of rows into a batch."""

    def __init__(self, encoded: EncodedPairs, rows: PackedRows, shape: tuple[int, int]) -> None:
        self._encoded, self._shape = encoded, shape
        with tf.device("CPU:0"):  # where the input pipeline runs
            self._pairs = tf.RaggedTensor.from_row_splits(rows.pairs, rows.splits)

    def __call__(self, rows: tf.Tensor) -> Example:
        """Look up the pairs of the rows, int64 (b,), and put them side by side."""
        pairs = tf.gather(self._pairs, rows)  # (b, ragged)
        source, target = (tf.gather(ids, pairs) for ids in (self._encoded.source, self._encoded.target))
        start, end = (
            tf.expand_dims(pairs.with_values(tf.fill(tf.shape(pairs.flat_values), token_id)), 2)
            for token_id in (SPECIAL_IDS.start, SPECIAL_IDS.end)
        )
        source, labels = tf.concat([source, end], axis=2), tf.concat([target, end], axis=2)
        inputs = {
            "encoder_token_ids": self._side_by_side(source),
            "decoder_token_ids": self._side_by_side(tf.concat([start, target], axis=2)),
            "encoder_segment_ids": self._side_by_side(_segment_ids(source)),
            "decoder_segment_ids": self._side_by_side(_segment_ids(labels)),
        }
        return inputs, self._side_by_side(labels)

    def _side_by_side(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Join the pairs of each row: int32 (b, ragged, ragged) to (b, length)."""
        return tf.ensure_shape(
            ids.merge_dims(1, 2).to_tensor(SPECIAL_IDS.pad, shape=self._shape), self._shape
        )


def _segment_ids(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Number the pairs of each row from 1, for each token, int32 (b, ragged, ragged)."""
    numbers = tf.ragged.range(1, tf.cast(ids.row_lengths(), tf.int32) + 1)  # (b, ragged)
    return ids.with_flat_values(tf.repeat(numbers.flat_values, ids.values.row_lengths()))
