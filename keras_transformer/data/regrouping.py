"""New batches of rows whose lengths have changed, so that they need little padding again."""

import tensorflow as tf

from keras_transformer.data.transformations import Transformation


def regroup_by_length(num_batches: int = 256, *, seed: int = 0) -> Transformation:
    """Shares out the rows of neighbouring batches anew, each batch to rows of about one length.

    Noise such as `subword_dropout` changes lengths after batches were made of rows of one length. Of the
    batches that are taken together, the one of the most rows gets the shortest of them all, and so on: there
    are as many batches as before, of the same numbers of rows, and their order is random. It depends on the
    seed and on the place in the epoch alone.

    Args:
        num_batches: how many batches are taken together; all their rows are held at once.
        seed: of the order.

    Returns:
        from token ids int32 (b, ragged) of source and target to the same.

    Raises:
        ValueError: a number below 1.

    Example:
        >>> ids = tf.ragged.constant([[[4, 5, 6], [7]], [[8], [9, 9, 9]]])
        >>> dataset = tf.data.Dataset.from_tensor_slices((ids, ids)).apply(regroup_by_length())
        >>> sorted(source.to_list() for source, target in dataset)
        [[[4, 5, 6], [9, 9, 9]], [[7], [8]]]
    """
    if num_batches < 1:
        raise ValueError(f"`num_batches` must be at least 1. Received: num_batches={num_batches}.")

    def regroup(number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]) -> tf.data.Dataset:
        """Share out the rows of source and target, (batches, ragged, ragged) each."""
        source, target = (ids.merge_dims(0, 1) for ids in pair)
        sizes = tf.sort(pair[0].row_lengths(), direction="DESCENDING")
        batches = tf.RaggedTensor.from_row_lengths(_by_length(source, target), sizes)
        draw_seed = tf.stack([tf.constant(seed, tf.int64), number])
        order = tf.random.experimental.stateless_shuffle(tf.range(batches.nrows()), draw_seed)
        positions = tf.gather(batches, order)
        return tf.data.Dataset.from_tensor_slices(
            (tf.gather(source, positions), tf.gather(target, positions))
        )

    return lambda dataset: dataset.ragged_batch(num_batches).enumerate().flat_map(regroup)


def _by_length(source: tf.RaggedTensor, target: tf.RaggedTensor) -> tf.Tensor:
    """Sort pairs by their longer side, then by their target; gives their places, int32 (n,)."""
    target_lengths = target.row_lengths()
    longer = tf.maximum(source.row_lengths(), target_lengths)
    return tf.argsort(longer * (tf.reduce_max(target_lengths) + 1) + target_lengths, stable=True)
