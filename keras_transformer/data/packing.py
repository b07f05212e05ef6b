"""Sequence packing: several texts or pairs in each row of one length.

Packing is for few shapes: batches of like lengths leave 1 to 3 % of padding, packed rows about 5, so it is
for compilers.
"""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import check_positive
from keras_transformer.data.batching import _BatchPlan, _EpochOrder
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.types import SPECIAL_IDS

# Rows that are searched for room for a pair: all of them would take a time quadratic in the corpus.
_NUM_OPEN = 64


def pack_texts(token_ids: tf.RaggedTensor, length: int) -> tf.data.Dataset:
    """Put texts one after the other into rows of one length, without padding between them.

    A row may begin and end within a text, and its tokens attend to the texts before them in the row, as in
    Brown et al. 2020, "Language Models are Few-Shot Learners", appendix B. Only the last row is padded. For
    pairs of an encoder-decoder, see `packed_length` of `translation_dataset`.

    Args:
        token_ids: int32 (n, ragged), as `Tokenizer.tokenize` gives them.
        length: tokens of a row, special ones included.

    Returns:
        Rows `(inputs, labels)`, int32 (length,) each, in order: in the inputs a start token before each text,
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
    check_positive(length=length)
    start = tf.fill([token_ids.nrows(), 1], SPECIAL_IDS.start)
    end = tf.fill([token_ids.nrows(), 1], SPECIAL_IDS.end)

    def cut(sequences: tf.RaggedTensor) -> tf.Tensor:
        stream = sequences.flat_values  # (m,) -> (ceil(m / length), length)
        padding = [[0, -tf.size(stream) % length]]
        return tf.reshape(tf.pad(stream, padding, constant_values=SPECIAL_IDS.pad), (-1, length))

    inputs, labels = tf.concat([start, token_ids], axis=1), tf.concat([token_ids, end], axis=1)
    return tf.data.Dataset.from_tensor_slices((cut(inputs), cut(labels)))


def _pack_pairs(
    encoded: EncodedPairs, packed_length: int, tokens_per_batch: int, order: _EpochOrder
) -> tf.data.Dataset:
    """Make a dataset of rows with several pairs each, all batches of one shape, padded with empty rows."""
    lengths = encoded.lengths()  # (n, 2)
    longest = lengths.max()
    if not longest <= packed_length <= tokens_per_batch:
        raise ValueError(
            "`packed_length` must hold the longest pair, and `tokens_per_batch` a row. Received: "
            f"packed_length={packed_length}, tokens_per_batch={tokens_per_batch}, a pair of {longest} tokens."
        )
    # Which pairs share a row is decided once: they do not see each other, so new rows in each epoch would
    # change nothing but the batches.
    pairs = np.arange(len(lengths))
    pairs = np.random.default_rng(order.seed).permutation(pairs) if order.shuffle else pairs
    # Where the input pipeline runs.
    with tf.device("CPU:0"):
        rows = tf.ragged.constant(_pack_rows(lengths, pairs, packed_length), dtype=tf.int64)
    num_rows, batch_size = int(rows.nrows()), tokens_per_batch // packed_length
    plan = _BatchPlan(
        keys=np.zeros(num_rows, np.int64), splits=np.append(np.arange(0, num_rows, batch_size), num_rows)
    )

    @tf.autograph.experimental.do_not_convert
    def join(indices: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        source, target = encoded._rows(tf.gather(rows, indices))  # (b, ragged, ragged)
        return _join_pairs(source, target, encoded.source_end_ids, (batch_size, packed_length))

    return plan.epochs(order).map(join, num_parallel_calls=tf.data.AUTOTUNE)


def _pack_rows(lengths: np.ndarray, order: Iterable[int], length: int) -> list[list[int]]:
    """Put each pair into the first of the open rows with room for it; returns the pairs of each row."""
    rows: list[list[int]] = []
    open_rows: dict[int, tuple[int, int]] = {}  # the room on both sides of the latest rows
    for pair in order:
        source, target = (int(tokens) for tokens in lengths[pair])
        fitting = (row for row, room in open_rows.items() if source <= room[0] and target <= room[1])
        row = next(fitting, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(int(pair))
        room = open_rows.get(row, (length, length))
        open_rows[row] = (room[0] - source, room[1] - target)
        if len(open_rows) > _NUM_OPEN:
            del open_rows[next(iter(open_rows))]
    return rows


def _join_pairs(
    source: tf.RaggedTensor,
    target: tf.RaggedTensor,
    source_end_ids: tuple[int, ...],
    shape: tuple[int, int],
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Make inputs and labels, int32 (b, length) each, of the pairs of each row, (b, ragged, ragged)."""
    # (b, ragged, 1): one position before or after each pair
    first = target.with_values(tf.fill([target.values.nrows(), 1], 0))
    start, end = first + SPECIAL_IDS.start, first + SPECIAL_IDS.end
    source_ends = [first + end_id for end_id in source_end_ids]
    source, labels = tf.concat([source, *source_ends], axis=2), tf.concat([target, end], axis=2)

    def join(ids: tf.RaggedTensor) -> tf.Tensor:
        # (b, ragged, ragged) -> (b, length)
        return tf.ensure_shape(ids.merge_dims(1, 2).to_tensor(SPECIAL_IDS.pad, shape=shape), shape)

    inputs = {
        "encoder_token_ids": join(source),
        "decoder_token_ids": join(tf.concat([start, target], axis=2)),
        "encoder_segment_ids": join(_segment_ids(source)),
        "decoder_segment_ids": join(_segment_ids(labels)),
    }
    return inputs, join(labels)


def _segment_ids(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Number the pairs of each row from 1, for each token, int32 (b, ragged, ragged)."""
    # Inputs, as in T5, and not read from the special tokens, so that the model need not know those.
    numbers = tf.ragged.range(1, tf.cast(ids.row_lengths(), tf.int32) + 1)  # (b, ragged)
    # (pairs,) -> (tokens,)
    return ids.with_flat_values(tf.repeat(numbers.flat_values, ids.values.row_lengths()))
