"""Batches for several devices and processes."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_transformer.data.transformations import Transformation
from keras_transformer.text.special_tokens import PAD_ID


def fill_rows(multiple: int) -> Transformation:
    """Fills each batch with rows of padding, so that devices can share it evenly.

    Rows without a token change neither the loss nor a gradient: `training.MaskedCrossentropy` is a mean
    over real tokens.

    Args:
        multiple: that the number of rows shall be of, such as the number of devices.

    Returns:
        from nested integers (b, t), and weights (b,), to the same structure with more rows.

    Raises:
        ValueError: `multiple` is not above zero.
    """
    if multiple < 1:
        raise ValueError(f"`multiple` must be above zero. Received: multiple={multiple}.")

    def fill(rows: tf.Tensor) -> tf.Tensor:
        """Add rows to one matrix, or to the weights of rows."""
        missing = -tf.shape(rows)[0] % multiple
        padding = [[0, missing], *[[0, 0]] * (rows.shape.rank - 1)]
        return tf.pad(rows, padding, constant_values=tf.cast(PAD_ID, rows.dtype))

    return _of_each_matrix(fill)


def _of_each_matrix(change: Callable[[tf.Tensor], tf.Tensor]) -> Transformation:
    """Change every matrix of a batch."""

    def change_batch(*batch: Any) -> Any:
        """Keep the structure; a batch that is no tuple comes as the only argument."""
        return tf.nest.map_structure(change, batch if len(batch) > 1 else batch[0])

    return lambda dataset: dataset.map(change_batch)


def rows_of_process(num_processes: int, process: int) -> Transformation:
    """Keeps the rows of each batch that one process trains on.

    All processes make the same batches, filled by `fill_rows`, so that each knows how far all are padded.

    Args:
        num_processes: that share a batch.
        process: which one, from 0.

    Returns:
        from nested (b, t) to the same structure of (b / num_processes, t).

    Raises:
        ValueError: there is no such process.
    """
    if not 0 <= process < num_processes:
        raise ValueError(
            "`process` must be at least 0 and below `num_processes`. "
            f"Received: process={process}, num_processes={num_processes}."
        )

    def keep(rows: tf.Tensor) -> tf.Tensor:
        """Keep a part of one matrix."""
        tf.debugging.assert_equal(
            tf.shape(rows)[0] % num_processes,
            0,
            f"{num_processes} processes must have equally many rows: apply `fill_rows({num_processes})`.",
        )
        size = tf.shape(rows)[0] // num_processes
        return rows[process * size : (process + 1) * size]

    return _of_each_matrix(keep)
