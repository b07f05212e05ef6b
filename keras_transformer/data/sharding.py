"""Batches for several devices and processes."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_transformer.data.transformations import Transformation
from keras_transformer.text import SPECIAL_IDS


def weigh_for_accumulation(num_batches: int, pad_id: int = SPECIAL_IDS.pad) -> Transformation:
    """Says how much each token counts, for an optimizer that accumulates gradients.

    `gradient_accumulation_steps` of a Keras optimizer takes the mean of the gradients of so many batches.
    Batches of sentences have different numbers of tokens, and the mean of their means is not the mean over
    all tokens: a token of a small batch would count for more. Only who has seen all batches of an update
    knows the number of their tokens, and that is the dataset. It gives each token the weight
    `num_batches / number of tokens in the group`. With a loss that adds up what is weighted, an update is
    exactly that of one batch with all their rows.

    The batches that are left at the end of an epoch, fewer than `num_batches`, are left out, so that each
    update of the optimizer is one group.

    Args:
        num_batches: how many batches make an update; the optimizer's `gradient_accumulation_steps`.
        pad_id: the label that is padding.

    Returns:
        from inputs and labels `(b, t)` to inputs, labels and weights, float32 (b,).

    Raises:
        ValueError: `num_batches` is not above zero, or more than the dataset has, or it has weights already.

    Example:
        ```python
        dataset = kt.data.translation_dataset(pairs, source_tokenizer, target_tokenizer)
        model.compile(
            keras.optimizers.Adam(1e-3, gradient_accumulation_steps=4),
            kt.training.MaskedCrossentropy(0.1, normalize=False),
        )
        model.fit(dataset.apply(kt.data.weigh_for_accumulation(4)))
        ```
    """
    if num_batches < 1:
        raise ValueError(f"`num_batches` must be above zero. Received: num_batches={num_batches}.")

    def weigh_dataset(dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Weigh the groups, and say how many batches there are."""
        weighed = dataset.window(num_batches, drop_remainder=True).flat_map(weigh_group)
        cardinality = int(dataset.cardinality())
        if 0 <= cardinality < num_batches:
            raise ValueError(
                "The dataset must have at least the `num_batches` batches of an update. "
                f"Received: num_batches={num_batches}, a dataset of {cardinality} batches."
            )
        if cardinality < 0:  # infinite or unknown
            return weighed
        whole = cardinality // num_batches * num_batches
        return weighed.apply(tf.data.experimental.assert_cardinality(whole))

    def weigh_group(
        inputs: dict[str, tf.data.Dataset], labels: tf.data.Dataset, *weights: tf.data.Dataset
    ) -> tf.data.Dataset:
        """Weigh the batches of one update."""
        if weights:
            raise ValueError(
                "The dataset must give inputs and labels, since the weights are made here. "
                f"Received: {2 + len(weights)} elements a batch."
            )
        num_tokens = labels.reduce(tf.constant(0, tf.int64), count)
        weight = num_batches / tf.maximum(tf.cast(num_tokens, tf.float32), 1.0)

        def weigh(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tuple[dict[str, tf.Tensor], ...]:
            """Give each row of a batch the weight of the group."""
            return inputs, labels, tf.fill([tf.shape(labels)[0]], weight)

        return tf.data.Dataset.zip((inputs, labels)).map(weigh)

    def count(total: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Add the tokens of a batch."""
        return total + tf.math.count_nonzero(tf.not_equal(labels, pad_id))

    return weigh_dataset


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
        return tf.pad(rows, padding, constant_values=tf.cast(SPECIAL_IDS.pad, rows.dtype))

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
