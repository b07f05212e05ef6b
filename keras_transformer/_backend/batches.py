"""`tf.data` transformations for several devices, processes or batches per update, on every backend."""

from typing import TYPE_CHECKING, Any

from keras_transformer.errors import InputError
from keras_transformer.types import SPECIAL_IDS

if TYPE_CHECKING:
    import tensorflow as tf


def share_rows(
    dataset: "tf.data.Dataset",
    num_shards: int,
    shard: int | None = None,
    ignored_label: int | None = SPECIAL_IDS.pad,
) -> "tf.data.Dataset":
    """Split the rows of each batch evenly among devices or processes.

    Each batch is first padded with rows to a multiple of `num_shards`. These rows change neither loss nor
    gradients: they have the label that a mean over tokens ignores, or for a mean over rows the weight 0. All
    processes must read the same batches, so that all pad equally.

    Args:
        dataset: Inputs, labels and perhaps weights (b,), each nested with rows on the first axis.
        num_shards: Number of devices or processes that share a batch.
        shard: Index of the shard to keep. Defaults to None, all rows.
        ignored_label: Label that the loss ignores. If None, weights are added to batches without weights.

    Returns:
        A dataset of the same structure, with weights if `ignored_label` is None.
    """
    import tensorflow as tf

    def share(rows: tf.Tensor, padding: int = SPECIAL_IDS.pad) -> tf.Tensor:
        missing = -tf.shape(rows)[0] % num_shards
        paddings = [[0, missing], *[[0, 0]] * (rows.shape.rank - 1)]
        rows = tf.pad(rows, paddings, constant_values=tf.cast(padding, rows.dtype))
        if shard is None:
            return rows
        size = tf.shape(rows)[0] // num_shards
        return rows[shard * size : (shard + 1) * size]

    @tf.autograph.experimental.do_not_convert
    def share_batch(*batch: Any) -> Any:
        if len(batch) == 1:  # inputs only
            return tf.nest.map_structure(share, batch[0])
        inputs, labels, *weights = batch
        if ignored_label is None:
            num_rows = tf.shape(tf.nest.flatten(labels)[0])[0]
            # Keras divides by the number of rows, with those of padding.
            factor = (num_rows + -num_rows % num_shards) / num_rows
            weights = weights or [tf.ones([num_rows])]
            weights = [each * tf.cast(factor, each.dtype) for each in weights]
        inputs, weights = tf.nest.map_structure(share, (inputs, weights))
        labels = tf.nest.map_structure(lambda rows: share(rows, ignored_label or 0), labels)
        return inputs, labels, *weights

    return dataset.map(share_batch)


def weigh_updates(dataset: "tf.data.Dataset", num_batches: int, pad_id: int) -> "tf.data.Dataset":
    """Add a weight to each example, so that gradient accumulation equals one large batch.

    A Keras optimizer with `gradient_accumulation_steps` averages the gradients of several batches. Batches
    have different numbers of tokens, so tokens of small batches would count more. This gives every token
    the weight `num_batches / number of tokens in the update`; with a loss that sums weighted tokens, the
    update is exactly that of one batch with all rows.

    Batches left at the end of an epoch, fewer than `num_batches`, are dropped, so that each update is one
    group of batches.

    Args:
        dataset: Inputs, labels `(b, t)`, and perhaps sample weights `(b,)` or `(b, t)`.
        num_batches: Number of batches per update.
        pad_id: Label of padding.

    Returns:
        Inputs, labels and weights, float32, (b,) or as the given weights.

    Raises:
        InputError: If the dataset has fewer than `num_batches` batches.
    """
    import tensorflow as tf

    def with_weights(inputs: Any, labels: tf.Tensor, weights: tf.Tensor | None = None) -> tuple[Any, ...]:
        weights = tf.ones(tf.shape(labels)[:1]) if weights is None else tf.cast(weights, tf.float32)
        return inputs, labels, weights

    def add(total: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        is_token = tf.cast(tf.not_equal(labels, pad_id), tf.float32)
        # (b,), (b, 1) or (b, t) -> (b, t)
        return total + tf.reduce_sum(is_token * tf.reshape(weights, [tf.shape(labels)[0], -1]))

    @tf.autograph.experimental.do_not_convert
    def weigh_group(inputs: Any, labels: tf.data.Dataset, weights: tf.data.Dataset) -> tf.data.Dataset:
        total = tf.data.Dataset.zip((labels, weights)).reduce(0.0, lambda total, each: add(total, *each))
        share = num_batches / tf.where(total == 0, 1.0, total)
        return tf.data.Dataset.zip((inputs, labels, weights)).map(
            lambda inputs, labels, weights: (inputs, labels, weights * share)
        )

    dataset = dataset.map(with_weights)
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
