"""The order of the pairs in each epoch, as a dataset of batches of positions."""

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
