"""Batches that several devices, processes or updates share: `tf.data` on every backend."""

from typing import TYPE_CHECKING, Any

from keras_transformer.errors import InputError
from keras_transformer.types import SPECIAL_IDS

if TYPE_CHECKING:
    import tensorflow as tf


def share_rows(dataset: "tf.data.Dataset", num_shards: int, shard: int | None = None) -> "tf.data.Dataset":
    """Let devices or processes share the rows of each batch evenly.

    Rows of padding fill each batch up to a multiple of `num_shards`. Without a token they change neither the
    loss nor a gradient: `training.MaskedCrossentropy` is a mean over real tokens. All processes make the same
    batches, so that each knows how far all are padded.

    Args:
        dataset: nested integers (b, t), and weights (b,).
        num_shards: how many devices or processes share a batch.
        shard: the one to keep the rows of, from 0; those of all if None.

    Returns:
        The same structure with other rows.
    """
    import tensorflow as tf

    def share(rows: tf.Tensor) -> tf.Tensor:
        missing = -tf.shape(rows)[0] % num_shards
        padding = [[0, missing], *[[0, 0]] * (rows.shape.rank - 1)]
        rows = tf.pad(rows, padding, constant_values=tf.cast(SPECIAL_IDS.pad, rows.dtype))
        if shard is None:
            return rows
        size = tf.shape(rows)[0] // num_shards
        return rows[shard * size : (shard + 1) * size]

    @tf.autograph.experimental.do_not_convert
    def share_batch(*batch: Any) -> Any:
        # A batch that is not a tuple comes as the only argument.
        return tf.nest.map_structure(share, batch if len(batch) > 1 else batch[0])

    return dataset.map(share_batch)


def weigh_updates(dataset: "tf.data.Dataset", num_batches: int, pad_id: int) -> "tf.data.Dataset":
    """Weight each token, for an optimizer that accumulates the gradients of several batches.

    `gradient_accumulation_steps` of a Keras optimizer takes the mean of the gradients of so many batches.
    Batches of sentences have different numbers of tokens, and the mean of their means is not the mean over
    all tokens: a token of a small batch would count for more. This looks at all batches of an update and
    gives each token the weight `num_batches / number of their tokens`. With a loss that adds up what is
    weighted, an update is exactly that of one batch with all their rows.

    The batches that are left at the end of an epoch, fewer than `num_batches`, are left out, so that each
    update of the optimizer is one group.

    Args:
        dataset: inputs and labels `(b, t)`.
        num_batches: how many batches make an update.
        pad_id: the label that is padding.

    Returns:
        Inputs, labels and weights, float32 (b,).

    Raises:
        InputError: the dataset has fewer batches than an update.
    """
    import tensorflow as tf

    def count(total: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return total + tf.math.count_nonzero(tf.not_equal(labels, pad_id))

    @tf.autograph.experimental.do_not_convert
    def weigh_group(inputs: Any, labels: tf.data.Dataset) -> tf.data.Dataset:
        num_tokens = labels.reduce(tf.constant(0, tf.int64), count)
        weight = num_batches / tf.maximum(tf.cast(num_tokens, tf.float32), 1.0)
        return tf.data.Dataset.zip((inputs, labels)).map(
            lambda inputs, labels: (inputs, labels, tf.fill([tf.shape(labels)[0]], weight))
        )

    weighted = dataset.window(num_batches, drop_remainder=True).flat_map(weigh_group)
    cardinality = int(dataset.cardinality())
    if cardinality < 0:  # infinite or unknown
        return weighted
    if cardinality < num_batches:
        raise InputError(
            "`gradient_accumulation_steps` must not be above the number of batches. Received: "
            f"gradient_accumulation_steps={num_batches}, {cardinality} batches an epoch."
        )
    whole = cardinality // num_batches * num_batches
    return weighted.apply(tf.data.experimental.assert_cardinality(whole))
