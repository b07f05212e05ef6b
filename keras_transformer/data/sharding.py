"""Batches for several devices and processes, and for updates of several batches."""

import tensorflow as tf

from keras_transformer._arguments import check_number, check_positive
from keras_transformer.data.batching import Transformation
from keras_transformer.types import SPECIAL_IDS


def shard_rows(num_shards: int, shard: int | None = None) -> Transformation:
    """Make a step that lets devices or processes share the rows of each batch evenly.

    Rows of padding fill each batch up to a multiple of `num_shards`. Without a token they change neither the
    loss nor a gradient: `training.MaskedCrossentropy` is a mean over real tokens. All processes make the same
    batches, so that each knows how far all are padded.

    Args:
        num_shards: how many devices or processes share a batch.
        shard: the one to keep the rows of, from 0; those of all if None.

    Returns:
        From a dataset of nested integers (b, t), and weights (b,), to the same structure with other rows.

    Raises:
        ValueError: `num_shards` is not above zero, or there is no such shard.
    """
    check_positive(num_shards=num_shards)
    if shard is not None:
        check_number(shard=shard, below=num_shards, whole=True)

    def share(rows: tf.Tensor) -> tf.Tensor:
        missing = -tf.shape(rows)[0] % num_shards
        padding = [[0, missing], *[[0, 0]] * (rows.shape.rank - 1)]
        rows = tf.pad(rows, padding, constant_values=tf.cast(SPECIAL_IDS.pad, rows.dtype))
        if shard is None:
            return rows
        size = tf.shape(rows)[0] // num_shards
        return rows[shard * size : (shard + 1) * size]

    @tf.autograph.experimental.do_not_convert
    def share_batch(*batch: object) -> object:
        # A batch that is not a tuple comes as the only argument.
        return tf.nest.map_structure(share, batch if len(batch) > 1 else batch[0])

    return lambda dataset: dataset.map(share_batch)


def accumulation_weights(num_batches: int, pad_id: int = SPECIAL_IDS.pad) -> Transformation:
    """Make a step that weights each token, for an optimizer that accumulates gradients.

    `gradient_accumulation_steps` of a Keras optimizer takes the mean of the gradients of so many batches.
    Batches of sentences have different numbers of tokens, and the mean of their means is not the mean over
    all tokens: a token of a small batch would count for more. The step looks at all batches of an update
    and gives each token the weight `num_batches / number of their tokens`. With a loss that adds up what is
    weighted, an update is exactly that of one batch with all their rows.

    The batches that are left at the end of an epoch, fewer than `num_batches`, are left out, so that each
    update of the optimizer is one group. For `keras.optimizers.Adam(gradient_accumulation_steps=4)` and
    `MaskedCrossentropy(normalize=False)`: `model.fit(dataset.apply(accumulation_weights(4)))`.

    Args:
        num_batches: how many batches make an update; the optimizer's `gradient_accumulation_steps`.
        pad_id: the label that is padding.

    Returns:
        From a dataset of inputs and labels `(b, t)` to inputs, labels and weights, float32 (b,).

    Raises:
        ValueError: `num_batches` is not above zero, or more than the dataset has, or it has weights already.
    """
    check_positive(num_batches=num_batches)

    def count(total: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return total + tf.math.count_nonzero(tf.not_equal(labels, pad_id))

    @tf.autograph.experimental.do_not_convert
    def weight_group(inputs: object, labels: tf.data.Dataset, *weights: object) -> tf.data.Dataset:
        if weights:
            raise ValueError(
                "The dataset must give inputs and labels, since the weights are made here. "
                f"Received: {2 + len(weights)} elements a batch."
            )
        num_tokens = labels.reduce(tf.constant(0, tf.int64), count)
        weight = num_batches / tf.maximum(tf.cast(num_tokens, tf.float32), 1.0)
        return tf.data.Dataset.zip((inputs, labels)).map(
            lambda inputs, labels: (inputs, labels, tf.fill([tf.shape(labels)[0]], weight))
        )

    def weight_dataset(dataset: tf.data.Dataset) -> tf.data.Dataset:
        weighted = dataset.window(num_batches, drop_remainder=True).flat_map(weight_group)
        cardinality = int(dataset.cardinality())
        if cardinality < 0:  # infinite or unknown
            return weighted
        if cardinality < num_batches:
            raise ValueError(
                "The dataset must have at least the `num_batches` batches of an update. "
                f"Received: num_batches={num_batches}, a dataset of {cardinality} batches."
            )
        whole = cardinality // num_batches * num_batches
        return weighted.apply(tf.data.experimental.assert_cardinality(whole))

    return weight_dataset
