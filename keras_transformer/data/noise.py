"""Noise in the sources, so that a model learns more from few pairs: steps from dataset to dataset.

They take what `gather_pairs` gives, and come before `teacher_forcing`; `encoded_dataset` and
`translation_dataset` put them there. The noise of a batch depends on the seed and on its place in the epoch
alone, so a resumed run sees the same; since each epoch has an order of its own, a pair is changed differently
in each.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_transformer.data.transformations import Transformation


def drop_tokens(rate: float, *, seed: int = 0) -> Transformation:
    """Leaves out tokens of the sources (Iyyer et al. 2015, section 3.2; Lample et al. 2018, section 2.3).

    Args:
        rate: the probability that a token is left out. Of each source at least one stays.
        seed: of the draws.

    Returns:
        from token ids int32 (b, ragged) of source and target to the same.

    Raises:
        ValueError: a rate outside [0, 1).

    Example:
        >>> ids = tf.ragged.constant([[4, 5, 6, 7], [8]])
        >>> dataset = tf.data.Dataset.from_tensors((ids, ids)).apply(drop_tokens(0.5))
        >>> [(source, target)] = dataset
        >>> len(source.to_list()), target.to_list()
        (2, [[4, 5, 6, 7], [8]])
    """
    if not 0 <= rate < 1:
        raise ValueError(f"`rate` must be at least 0 and below 1. Received: rate={rate}.")

    def drop(source: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        """Leave out tokens of one batch."""
        draws = tf.random.stateless_uniform(tf.shape(source.flat_values), draw_seed)
        draws = source.with_flat_values(draws)
        # The token with the highest draw stays, whatever it is.
        highest = tf.reduce_max(draws, axis=1, keepdims=True)  # (b, ragged 1)
        return tf.ragged.boolean_mask(source, (draws >= rate) | (draws >= highest))

    return _of_sources(drop, seed)


def permute_tokens(distance: int, *, seed: int = 0) -> Transformation:
    """Moves tokens of the sources by a few places (Lample et al. 2018, section 2.3).

    Args:
        distance: the most places that a token moves.
        seed: of the draws.

    Returns:
        from token ids int32 (b, ragged) of source and target to the same.

    Raises:
        ValueError: a distance below 0.
    """
    if distance < 0:
        raise ValueError(f"`distance` must be at least 0. Received: distance={distance}.")

    def permute(source: tf.RaggedTensor, draw_seed: tf.Tensor) -> tf.RaggedTensor:
        """Sort each row by its places and what is added to them."""
        draws = tf.random.stateless_uniform(
            tf.shape(source.flat_values), draw_seed, 0, distance + 1, tf.float64
        )
        places = tf.cast(tf.range(tf.size(source.flat_values)), tf.float64) + draws
        # Rows lie further apart than anything moves.
        rows = tf.cast(source.value_rowids(), tf.float64) * (distance + 2)
        return source.with_flat_values(tf.gather(source.flat_values, tf.argsort(places + rows, stable=True)))

    return _of_sources(permute, seed)


def _of_sources(change: Callable[[tf.RaggedTensor, tf.Tensor], tf.RaggedTensor], seed: int) -> Transformation:
    """Change the sources of each batch, with draws of its own."""

    def change_batch(
        number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Change one batch."""
        source, target = pair
        return change(source, tf.stack([tf.constant(seed, tf.int64), number])), target

    def change_dataset(dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Change all batches."""
        return dataset.enumerate().map(change_batch, num_parallel_calls=tf.data.AUTOTUNE)

    return change_dataset
