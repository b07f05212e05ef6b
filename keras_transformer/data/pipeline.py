"""From pairs to the batches that `model.fit` takes."""

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from keras_transformer.data.batches import (
    bucket_ends,
    choose_bucket_boundaries,
    cut_batches,
    ordered_batches,
    shuffled_batches,
)
from keras_transformer.data.encoding import EncodedPairs, encode_pairs
from keras_transformer.data.pairs import Pair
from keras_transformer.data.transformations import (
    Transformation,
    gather_pairs,
    keep_ready,
    pad_batches,
    teacher_forcing,
)
from keras_transformer.text import Tokenizer


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


def translation_dataset(
    pairs: Iterable[Pair],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    tokens_per_batch: int = 4096,
    max_source_length: int = 256,
    max_target_length: int = 256,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    bucket_boundaries: Sequence[int] | None = None,
    pad_to_bucket_boundary: bool = False,
    noise: Sequence[Transformation] = (),
) -> tf.data.Dataset:
    """Makes the dataset that trains or validates a `Transformer`.

    Args:
        pairs: source and target texts, which are held in memory; see `streamed_dataset` for more of them.
        source_tokenizer: tokenizer of the sources.
        target_tokenizer: tokenizer of the targets.
        tokens_per_batch: most tokens of a batch on either side, padding included.
        max_source_length: most tokens of a source, the end token included. Longer pairs are
            left out, counted and logged; see `encode_pairs`.
        max_target_length: most tokens of a target, one special token included.
        shuffle: whether each epoch draws new batches; otherwise they come from short to long.
        seed: seed of the shuffling; see `encoded_dataset`.
        first_epoch: epoch of the first iteration, to go on where an earlier run stopped.
        bucket_boundaries: lengths that part the buckets; see `default_bucket_boundaries`.
        pad_to_bucket_boundary: pad source and target to the same boundary, for few shapes
            (XLA); otherwise each to the longest of its batch, for little padding.
        noise: steps such as `drop_tokens(0.1)` or `subword_dropout(...)`, which change token ids before
            they are padded.

    Returns:
        a finite dataset that knows its number of batches, with elements
        `({"encoder_token_ids": (b, s), "decoder_token_ids": (b, t)}, labels (b, t))`, all int32
        and padded with `PAD_ID`.

    Raises:
        InputError: there are no pairs, or none fits the limits.
        ValueError: a limit, the boundaries or the token budget are out of range.

    Example:
        >>> from keras_transformer.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer(["a", "b"])
        >>> dataset = translation_dataset([("ab", "ba"), ("b", "b")], tokenizer, tokenizer)
        >>> [(inputs, labels)] = dataset.as_numpy_iterator()
        >>> sorted(inputs), labels.shape
        (['decoder_token_ids', 'encoder_token_ids'], (2, 3))
    """
    encoded = encode_pairs(
        pairs,
        source_tokenizer,
        target_tokenizer,
        max_source_length=max_source_length,
        max_target_length=max_target_length,
    )
    return encoded_dataset(
        encoded,
        tokens_per_batch=tokens_per_batch,
        shuffle=shuffle,
        seed=seed,
        first_epoch=first_epoch,
        bucket_boundaries=bucket_boundaries,
        pad_to_bucket_boundary=pad_to_bucket_boundary,
        noise=noise,
    )


def encoded_dataset(
    encoded: EncodedPairs,
    *,
    tokens_per_batch: int = 4096,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    bucket_boundaries: Sequence[int] | None = None,
    pad_to_bucket_boundary: bool = False,
    noise: Sequence[Transformation] = (),
) -> tf.data.Dataset:
    """Makes the dataset of pairs that are token ids already.

    Pairs are bucketed by their longer side, so that the budget bounds the memory of both, and
    sorted by the length of the target where they share a bucket.
    Each iteration over the dataset is an epoch with an order of its own, which depends on `seed`
    and the number of the epoch alone: two datasets with the same arguments give the same
    batches, and `first_epoch=k` gives those of the k-th iteration, counted from 0.

    Args:
        encoded: the pairs.
        tokens_per_batch: as in `translation_dataset`, like all that follow.
        shuffle: whether each epoch draws new batches.
        seed: seed of the shuffling.
        first_epoch: epoch of the first iteration.
        bucket_boundaries: lengths that part the buckets.
        pad_to_bucket_boundary: pad source and target to the same boundary.
        noise: steps that change token ids. Shuffled batches are made anew of their rows, see
            `regroup_by_length`; rows that have become longer make them larger.

    Returns:
        the dataset that `translation_dataset` describes.

    Raises:
        ValueError: the boundaries or the token budget are out of range.
    """
    longest = int(encoded.lengths().max())
    boundaries = choose_bucket_boundaries(bucket_boundaries, longest, coarse=pad_to_bucket_boundary)
    keys, splits = plan_batches(encoded, boundaries, tokens_per_batch)
    if shuffle:
        batches = shuffled_batches(keys, splits, seed=seed, first_epoch=first_epoch)
    else:
        batches = ordered_batches(keys, splits)
    token_ids = batches.apply(gather_pairs(encoded)).apply(change_rows(noise, shuffle, seed))
    return (
        token_ids.apply(teacher_forcing)
        .apply(pad_batches(boundaries if pad_to_bucket_boundary else None))
        .apply(tf.data.experimental.assert_cardinality(len(splits) - 1))
        .apply(keep_ready)
    )


def plan_batches(
    encoded: EncodedPairs, boundaries: Sequence[int], tokens_per_batch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Says which pairs lie side by side, and where batches of them begin.

    Args:
        encoded: n pairs.
        boundaries: upper ends of the buckets; none is longer than the last.
        tokens_per_batch: most tokens of either side of a batch, padding included.

    Returns:
        what the pairs are sorted by, int64 (n,), and where batches of the sorted pairs start, int64 (number
        of batches + 1,).

    Raises:
        ValueError: the longest pair alone is above the budget.
    """
    ends = bucket_ends(encoded.lengths(), boundaries)
    # Within a bucket by the target, so that it is padded as little as the longer side.
    keys = ends * (boundaries[-1] + 1) + bucket_ends(encoded.target_lengths(), boundaries)
    return keys, cut_batches(np.sort(ends), tokens_per_batch)


def change_rows(noise: Sequence[Transformation], shuffle: bool, seed: int) -> Transformation:
    """Applies the steps of noise, and makes shuffled batches anew of the rows that they give.

    Args:
        noise: steps that change token ids.
        shuffle: whether the order of the batches is free.
        seed: of their new order.

    Returns:
        from token ids int32 (b, ragged) of source and target to the same.
    """

    def change(dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Chain the steps."""
        for step in noise:
            dataset = dataset.apply(step)
        return dataset.apply(regroup_by_length(seed=seed)) if noise and shuffle else dataset

    return change
