"""Batches of more pairs than memory holds, tokenized while a model trains."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_transformer.data.batches import (
    choose_bucket_boundaries,
    cut_batches,
)
from keras_transformer.data.chunk_cache import CachedChunks
from keras_transformer.data.chunks import Chunks, EncodedChunks, PairSource
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.epochs import shuffle_batches
from keras_transformer.data.pipeline import change_rows, plan_batches
from keras_transformer.data.transformations import Transformation, keep_ready, pad_batches, teacher_forcing
from keras_transformer.text.tokenizer import Tokenizer

_ROWS = tf.RaggedTensorSpec([None, None], tf.int32)


def streamed_dataset(
    pairs: PairSource,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    tokens_per_batch: int = 4096,
    max_source_length: int = 256,
    max_target_length: int = 256,
    chunk_size: int = 65_536,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    bucket_boundaries: Sequence[int] | None = None,
    pad_to_bucket_boundary: bool = False,
    noise: Sequence[Transformation] = (),
    cache: str | Path | None = None,
) -> tf.data.Dataset:
    """Makes the dataset that `translation_dataset` makes, of pairs that are not all in memory.

    Pairs are read in chunks, and each chunk is batched by length and shuffled as `encoded_dataset` does it
    with all. Each iteration is an epoch; its order depends on `seed` and its number alone. Without a cache
    the number of batches is not known: Keras then warns at the end of an epoch that its data has ended.

    Args:
        pairs: what gives source and target texts anew for each epoch: a function that returns a generator, a
            `tf.data.Dataset` of two strings (TFDS with `as_supervised=True`), `ParallelText`, or a list.
            Pairs with an empty side are left out.
        source_tokenizer: tokenizer of the sources.
        target_tokenizer: tokenizer of the targets.
        tokens_per_batch: as in `translation_dataset`, like all that is not explained here.
        max_source_length: longer ones are left out; how many is logged at the end of the first epoch.
        max_target_length: likewise.
        chunk_size: pairs that are in memory, and shuffled, together.
        shuffle: whether each epoch draws new batches.
        seed: seed of the shuffling.
        first_epoch: epoch of the first iteration, to go on where an earlier run stopped.
        bucket_boundaries: lengths that part the buckets.
        pad_to_bucket_boundary: pad source and target to the same boundary.
        noise: steps that change token ids.
        cache: directory for the token ids. All pairs are tokenized at once, and only if it is not there
            yet. It notices other tokenizers and limits, but not other texts.

    Returns:
        a dataset of the elements that `translation_dataset` describes.

    Raises:
        TypeError: `pairs` is an iterator, which gives them only once.
        ValueError: a limit, the boundaries, a size or the token budget are out of range.
        InputError: the cache is of other tokenizers or limits, or cannot be written. What is wrong with the
            pairs shows when they are read: without a cache in the iteration, as an error of TensorFlow
            that holds the message.

    Example:
        >>> from keras_transformer.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer(["a", "b"])
        >>> dataset = streamed_dataset(lambda: iter([("ab", "ba"), ("b", "b")]), tokenizer, tokenizer)
        >>> [labels.shape for inputs, labels in dataset.as_numpy_iterator()]
        [(2, 3)]
    """
    encoded_chunks = EncodedChunks(
        pairs,
        source_tokenizer,
        target_tokenizer,
        max_source_length=max_source_length,
        max_target_length=max_target_length,
        chunk_size=chunk_size,
    )
    chunks: Chunks = encoded_chunks if cache is None else CachedChunks(encoded_chunks, Path(cache))
    longest = max(max_source_length, max_target_length)
    boundaries = choose_bucket_boundaries(bucket_boundaries, longest, coarse=pad_to_bucket_boundary)
    cut_batches(np.asarray(boundaries[-1:]), tokens_per_batch)  # the longest pair must fit
    epochs = itertools.count(first_epoch)

    def epoch_batches() -> Iterator[tuple[tf.RaggedTensor, tf.RaggedTensor]]:
        """Give the batches of the next epoch."""
        epoch_seed = [seed, next(epochs)] if shuffle else None
        for number, encoded in enumerate(chunks):
            for positions in _positions(encoded, boundaries, tokens_per_batch, epoch_seed, number):
                yield tf.gather(encoded.source, positions), tf.gather(encoded.target, positions)

    token_ids = tf.data.Dataset.from_generator(epoch_batches, output_signature=(_ROWS, _ROWS))
    dataset = (
        token_ids.apply(change_rows(noise, shuffle, seed))
        .apply(teacher_forcing)
        .apply(pad_batches(boundaries if pad_to_bucket_boundary else None))
    )
    if cache is not None:
        num_batches = sum(len(plan_batches(chunk, boundaries, tokens_per_batch)[1]) - 1 for chunk in chunks)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(num_batches))
    return keep_ready(dataset)


def _positions(
    encoded: EncodedPairs,
    boundaries: Sequence[int],
    tokens_per_batch: int,
    epoch_seed: list[int] | None,
    number: int,
) -> tf.RaggedTensor:
    """Cut a chunk into batches; gives positions of its pairs, int64 (number of batches, ragged)."""
    keys, splits = plan_batches(encoded, boundaries, tokens_per_batch)
    if epoch_seed is None:
        return tf.RaggedTensor.from_row_splits(np.argsort(keys, kind="stable"), splits)
    chunk_seed = tf.random.experimental.stateless_fold_in(tf.constant(epoch_seed, tf.int64), number)
    return shuffle_batches(tf.constant(keys), tf.constant(splits), chunk_seed)
