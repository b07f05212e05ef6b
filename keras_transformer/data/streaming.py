"""Batches of more pairs than memory holds, tokenized while a model trains.

A stream is chunks of what is done in memory: each chunk is planned in Python as a whole corpus is, and
TensorFlow gets finished batches.
"""

import itertools
from collections.abc import Iterator, Sequence

import tensorflow as tf

from keras_transformer.data.batching import _check_budget, _EpochOrder, _plan_batches
from keras_transformer.data.encoding import _EncodedChunks

_ROWS = tf.RaggedTensorSpec([None, None], tf.int32)


def _stream_batches(
    chunks: _EncodedChunks, boundaries: Sequence[int], tokens_per_batch: int, order: _EpochOrder
) -> tf.data.Dataset:
    """Make a dataset of source and target token ids, int32 (b, ragged) each, of unknown size."""
    _check_budget(boundaries[-1], tokens_per_batch)
    epochs = itertools.count(order.first_epoch)

    def epoch_batches() -> Iterator[tuple[tf.RaggedTensor, tf.RaggedTensor]]:
        epoch_seed = tf.constant([order.seed, next(epochs)], tf.int64)
        for number, encoded in enumerate(chunk for chunk in chunks if len(chunk)):
            plan = _plan_batches(encoded, boundaries, tokens_per_batch)
            chunk_seed = tf.random.experimental.stateless_fold_in(epoch_seed, number)
            for indices in plan.shuffled(chunk_seed) if order.shuffle else plan.ordered():
                yield encoded._rows(indices)

    return tf.data.Dataset.from_generator(epoch_batches, output_signature=(_ROWS, _ROWS))
