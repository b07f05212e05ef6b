"""From pairs to the batches that `model.fit` takes."""

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer._arguments import check_flags, check_kind, check_number, check_positive, check_several
from keras_transformer.data.batching import Transformation, _BatchPlan, _EpochOrder, _plan_batches
from keras_transformer.data.encoding import EncodedPairs, Example, PairSource
from keras_transformer.data.frame_pairs import EncodedFrames, FramePair
from keras_transformer.data.frames import FrameNormalizer
from keras_transformer.text.tokenizer import Tokenizer

# Batches that wait to be trained on.
_NUM_READY = 8

# Batches that share their rows after noise. Rows are sorted by their longer side, so among few of them
# the other sides differ: where only sources change, 64 batches leave 17 % of the target positions of
# Multi30k empty, 128 leave 12 %, 256 leave 8 %. They take a few megabytes and 0.4 s.
_NUM_REGROUPED = 256


def translation_dataset(
    pairs: PairSource | Iterable[FramePair] | EncodedPairs,
    source_tokenizer: Tokenizer | FrameNormalizer | None = None,
    target_tokenizer: Tokenizer | None = None,
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
    cache: str | Path | None = None,
) -> tf.data.Dataset:
    """Make the dataset that trains or validates a `Transformer`.

    Pairs of like length share a batch: they are bucketed by their longer side, so that the budget
    bounds the memory of both, and sorted by the target within a bucket. Each iteration over the
    dataset is an epoch, whose order depends on `seed` and the number of the epoch alone: two datasets
    with the same arguments give the same batches, and `first_epoch=k` gives those of iteration k.

    Args:
        pairs: source and target texts, or `EncodedPairs`. With `cache` also what gives more of them than
            memory holds; see `EncodedPairs.cached`. Sources may be frames, arrays `(s, w)`.
        source_tokenizer: tokenizer of the sources, for frames a `FrameNormalizer`; not used for
            `EncodedPairs`.
        target_tokenizer: tokenizer of the targets; likewise.
        tokens_per_batch: most tokens, or frames, of a batch on either side, padding included.
        max_source_length: see `EncodedPairs.encode`; longer pairs are left out, counted and logged.
        max_target_length: likewise.
        shuffle: whether each epoch draws new batches; otherwise they come from short to long.
        seed: seed of the shuffling.
        first_epoch: epoch of the first iteration, to go on where an earlier run stopped.
        bucket_boundaries: increasing lengths that part the buckets; by default in steps of a sixteenth.
        pad_to_bucket_boundary: pad source and target to the same boundary, for few shapes
            (XLA); otherwise each to the longest of its batch, for little padding.
        noise: steps such as `subword_dropout(...)`, which change token ids before they are padded. The
            rows of shuffled batches are grouped again by their new lengths; longer rows make batches larger.
        cache: directory for token ids, as in `EncodedPairs.cached`: all pairs are tokenized once, and
            shuffled together, and the batches are those of pairs in memory.

    Returns:
        A finite dataset that knows its number of batches, with elements `({"encoder_token_ids": (b, s),
        "decoder_token_ids": (b, t)}, labels (b, t))`, all int32 and padded with 0. Frames have
        `"encoder_features": (b, s, w)`, float32, and `"encoder_padding_mask": (b, s)`, boolean, in place of
        `"encoder_token_ids"`.

    Raises:
        InputError: there are no pairs, or none fits the limits; the cache is of other tokenizers or limits,
            or cannot be written.
        TypeError: texts without tokenizers.
        ValueError: a value out of range, or options that exclude each other.

    Example:
        >>> from keras_transformer.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer(["a", "b"])
        >>> dataset = translation_dataset([("ab", "ba"), ("b", "b")], tokenizer, tokenizer)
        >>> [(inputs, labels)] = dataset.as_numpy_iterator()
        >>> sorted(inputs), labels.shape
        (['decoder_token_ids', 'encoder_token_ids'], (2, 3))
    """
    check_flags(shuffle=shuffle, pad_to_bucket_boundary=pad_to_bucket_boundary)
    check_positive(tokens_per_batch=tokens_per_batch)
    check_number(whole=True, seed=seed, first_epoch=first_epoch)
    check_several(Callable, noise=noise)
    if bucket_boundaries is not None:
        check_several(Integral, bucket_boundaries=bucket_boundaries)
    if isinstance(pairs, EncodedPairs):
        if cache is not None:
            raise ValueError(f"`cache` is for texts. Received: {len(pairs)} EncodedPairs.")
        encoded = pairs
    else:
        limits = max_source_length, max_target_length
        encoded = _encode(pairs, *_both(source_tokenizer, target_tokenizer), limits, cache)
    plan = _plan_batches(
        encoded.lengths(), bucket_boundaries, tokens_per_batch, padded=pad_to_bucket_boundary
    )
    batches = plan.epochs(_EpochOrder(shuffle, seed, first_epoch))
    dataset = batches.map(encoded._rows, num_parallel_calls=tf.data.AUTOTUNE)
    for step in noise:
        dataset = dataset.apply(step)
    if noise and shuffle:
        dataset = dataset.apply(_regroup_by_length(seed))
    dataset = dataset.map(encoded._example, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.apply(_pad(plan if pad_to_bucket_boundary else None))
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(batches.cardinality()))
    return _keep_ready(dataset)


def _encode(
    pairs: Any,
    source_tokenizer: Tokenizer | FrameNormalizer,
    target_tokenizer: Tokenizer,
    limits: tuple[int, int],
    cache: str | Path | None,
) -> EncodedPairs:
    longest, longest_target = limits
    given = pairs() if callable(pairs) and cache is None else pairs
    if isinstance(source_tokenizer, FrameNormalizer):
        if cache is not None:
            raise ValueError(f"`cache` is for texts. Received: cache={str(cache)!r} for frames.")
        return EncodedFrames.of(
            given,
            source_tokenizer,
            target_tokenizer,
            max_source_length=longest,
            max_target_length=longest_target,
        )
    if cache is None:
        return EncodedPairs.encode(
            given,
            source_tokenizer,
            target_tokenizer,
            max_source_length=longest,
            max_target_length=longest_target,
        )
    return EncodedPairs.cached(
        given,
        source_tokenizer,
        target_tokenizer,
        cache,
        max_source_length=longest,
        max_target_length=longest_target,
    )


def _both(
    source: Tokenizer | FrameNormalizer | None, target: Tokenizer | None
) -> tuple[Tokenizer | FrameNormalizer, Tokenizer]:
    check_kind(Tokenizer, FrameNormalizer, None, source_tokenizer=source)
    check_kind(Tokenizer, None, target_tokenizer=target)
    if source is None or target is None:
        raise TypeError(
            "Pairs of texts need a tokenizer of each side. That of frames is a `FrameNormalizer`. "
            f"Received: source_tokenizer={source}, target_tokenizer={target}."
        )
    return source, target


def _regroup_by_length(seed: int) -> Transformation:
    """Group the rows of neighbouring batches again, each batch of rows of about one length."""
    # Noise changes lengths after batches were made of rows of one length: with subword dropout, half as much
    # padding as text came with them (935,000 positions for 631,000 tokens of Multi30k).

    @tf.autograph.experimental.do_not_convert
    def regroup(number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]) -> tf.data.Dataset:
        # (batches, ragged, ragged) -> (n, ragged)
        source, target = (ids.merge_dims(0, 1) for ids in pair)
        # The batch with the most rows gets the shortest of them all, and so on: so the number of batches,
        # which Keras and schedules count on, stays.
        sizes = tf.sort(pair[0].row_lengths(), direction="DESCENDING")
        # By the longer side, then by the target.
        target_lengths = target.row_lengths()
        longer = tf.maximum(source.row_lengths(), target_lengths)
        keys = longer * (tf.reduce_max(target_lengths) + 1) + target_lengths
        batches = tf.RaggedTensor.from_row_lengths(tf.argsort(keys, stable=True), sizes)
        draw_seed = tf.stack([tf.constant(seed, tf.int64), number])
        order = tf.random.experimental.stateless_shuffle(tf.range(batches.nrows()), draw_seed)
        indices = tf.gather(batches, order)
        return tf.data.Dataset.from_tensor_slices((tf.gather(source, indices), tf.gather(target, indices)))

    return lambda dataset: dataset.ragged_batch(_NUM_REGROUPED).enumerate().flat_map(regroup)


def _pad(plan: _BatchPlan | None) -> Transformation:
    """Pad rows: all matrices of a batch to the width that is planned, or each to its longest row."""

    @tf.autograph.experimental.do_not_convert
    def pad(inputs: dict[str, tf.RaggedTensor], labels: tf.RaggedTensor) -> Example:
        shape = None
        if plan is not None:
            longest = tf.reduce_max([ids.bounding_shape(axis=1) for ids in (*inputs.values(), labels)])
            shape = tf.stack([labels.nrows(), plan.width(longest, labels.nrows())])

        def pad_rows(rows: tf.RaggedTensor) -> tf.Tensor:
            # (b, ragged), or frames (b, ragged, w). Zero is the padding of all: of ids, masks and frames.
            width = rows.shape[2:]
            padded = rows.to_tensor(shape=None if shape is None else tf.concat([shape, width], axis=0))
            return tf.ensure_shape(padded, [None, None, *width])

        return {name: pad_rows(rows) for name, rows in inputs.items()}, pad_rows(labels)

    return lambda dataset: dataset.map(pad, num_parallel_calls=tf.data.AUTOTUNE)


def _keep_ready(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Prepare the next batches while one is trained on, with TensorFlow's autotuner turned off."""
    # An iterator whose data has ended, at the end of each epoch, waits for the autotuner's next look at the
    # pipeline, and the period doubles from 10 ms to a minute: 16 steps of 0.31 s took 10.2 s.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.prefetch(_NUM_READY).with_options(options)
