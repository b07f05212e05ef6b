"""Steps of the input pipeline: each takes a dataset and returns a dataset.

They are composed with `dataset.apply`, in reading order.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow as tf

from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.text import SPECIAL_IDS

Transformation: TypeAlias = Callable[[tf.data.Dataset], tf.data.Dataset]
Example: TypeAlias = tuple[dict[str, tf.Tensor], tf.Tensor]  # inputs by name, and labels

_NUM_READY = 8
"""Batches that wait to be trained on."""


def gather_pairs(encoded: EncodedPairs) -> Transformation:
    """Looks up the token ids of the pairs of a batch.

    Args:
        encoded: the pairs.

    Returns:
        from positions int64 (b,) to source and target token ids, int32 (b, ragged) each.
    """

    def gather(positions: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Take the pairs of one batch."""
        return tf.gather(encoded.source, positions), tf.gather(encoded.target, positions)

    return lambda dataset: dataset.map(gather, num_parallel_calls=tf.data.AUTOTUNE)


def teacher_forcing(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Makes inputs and labels, so that the decoder predicts each token from the true ones before it.

    Args:
        dataset: source and target token ids, int32 (b, ragged) each.

    Returns:
        `({"encoder_token_ids": source + END, "decoder_token_ids": START + target}, target + END)`,
        int32 (b, ragged) each.
    """

    def shift(source: tf.RaggedTensor, target: tf.RaggedTensor) -> Example:
        """Put the start before one copy of the target and the end after the other."""
        start = tf.fill([target.nrows(), 1], SPECIAL_IDS.start)  # (b, 1)
        end = tf.fill([target.nrows(), 1], SPECIAL_IDS.end)
        inputs = {
            "encoder_token_ids": tf.concat([source, end], axis=1),
            "decoder_token_ids": tf.concat([start, target], axis=1),
        }
        return inputs, tf.concat([target, end], axis=1)

    return dataset.map(shift, num_parallel_calls=tf.data.AUTOTUNE)


def pad_batches(bucket_boundaries: Sequence[int] | None = None) -> Transformation:
    """Pads the rows of each batch with `PAD_ID`.

    Args:
        bucket_boundaries: lengths to pad to: every matrix of a batch gets the smallest that fits
            all of them, or that of the longest row where none does, so that a compiled model meets few
            shapes. Without them, source and target are each padded to their longest row.

    Returns:
        from nested int32 (b, ragged) to the same structure of int32 (b, s) and (b, t).
    """

    def pad(inputs: dict[str, tf.RaggedTensor], labels: tf.RaggedTensor) -> Example:
        """Make matrices of one batch."""
        width = None
        if bucket_boundaries is not None:
            width = _fitting_boundary([*inputs.values(), labels], bucket_boundaries)
        return {name: _to_dense(ids, width) for name, ids in inputs.items()}, _to_dense(labels, width)

    return lambda dataset: dataset.map(pad, num_parallel_calls=tf.data.AUTOTUNE)


def keep_ready(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Prepares the next batches while one is trained on; the last step of a pipeline.

    TensorFlow's autotuner is turned off: an iterator whose data has ended, at the end of each epoch,
    waits for its next look at the pipeline, which comes at intervals that double from 10 ms to a minute.

    Args:
        dataset: of any structure.

    Returns:
        the same elements.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(_NUM_READY).with_options(options)


def _fitting_boundary(rows: Sequence[tf.RaggedTensor], bucket_boundaries: Sequence[int]) -> tf.Tensor:
    """Finds the smallest boundary that no row is longer than, or that of the longest row, int64 ()."""
    longest = tf.reduce_max([token_ids.bounding_shape(axis=1) for token_ids in rows])
    boundaries = tf.concat([tf.constant(bucket_boundaries, tf.int64), longest[tf.newaxis]], axis=0)
    return boundaries[tf.searchsorted(boundaries[:-1], longest[tf.newaxis])[0]]


def _to_dense(token_ids: tf.RaggedTensor, width: tf.Tensor | None) -> tf.Tensor:
    """Pads int32 (b, ragged) to (b, width)."""
    shape = None if width is None else tf.stack([token_ids.nrows(), width])
    dense = token_ids.to_tensor(SPECIAL_IDS.pad, shape=shape)
    return tf.ensure_shape(dense, [None, None])
