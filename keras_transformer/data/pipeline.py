"""Build `tf.data.Dataset`s of sentence pairs for `model.fit`."""

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer._arguments import check_kind, check_several
from keras_transformer.data.batching import Transformation, _checked_order
from keras_transformer.data.encoding import EncodedPairs, FramePair, PairSource
from keras_transformer.data.frames import FrameNormalizer
from keras_transformer.text.tokenizer import Tokenizer

# Number of batches whose rows are regrouped after noise. Rows are sorted by their longer side, so with few
# batches the other sides differ in length: if only sources have noise, padding is 17 % of Multi30k's target
# positions with 64 batches, 12 % with 128 and 8 % with 256. They take a few megabytes and 0.4 s.
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
    """Build the dataset that trains or validates a `Transformer`.

    Pairs of similar length share a batch: they are bucketed by their longer side and sorted by target length
    within a bucket. Each iteration over the dataset is an epoch. The batches of an epoch depend only on the
    arguments and the epoch number, so a dataset with `first_epoch=k` starts with the batches of epoch `k`.
    So `take` and `skip`, or two shards, of one shuffled dataset overlap: split with `split_pairs`, and make a
    dataset for each shard.

    Args:
        pairs: Pairs of source and target text, or `EncodedPairs`. With `cache`, also the streams that
            `EncodedPairs.cached` accepts. A source may also be an array of frames, `(s, w)`.
        source_tokenizer: Tokenizer of the sources; for frames, a `FrameNormalizer`. Ignored for
            `EncodedPairs`.
        target_tokenizer: Tokenizer of the targets. Ignored for `EncodedPairs`.
        tokens_per_batch: Maximum number of tokens or frames of a batch on each side, including padding.
        max_source_length: Maximum number of tokens (including the end token) or frames of a source. Longer
            pairs are dropped; see `EncodedPairs.encode`.
        max_target_length: Maximum number of tokens of a target, including the end token. Longer pairs are
            dropped.
        shuffle: Whether to draw new batches in each epoch. If False, batches come from short to long.
        seed: Random seed of the shuffling.
        first_epoch: Epoch number of the first iteration, from 0, to resume a run.
        bucket_boundaries: Increasing upper lengths of the buckets. By default, each is 1/16 longer than the
            one before (1/4 with `pad_to_bucket_boundary`).
        pad_to_bucket_boundary: Whether to pad source and target to the same bucket boundary, for few batch
            shapes (XLA). If False, each is padded to the longest row of its batch, for little padding.
        noise: Steps that change token ids before padding, such as `subword_dropout(...)`. They may change
            the lengths of the pairs; with `shuffle`, the pairs are then batched again by their new lengths,
            in batches of as many pairs as before. If pairs get longer, these exceed `tokens_per_batch`.
        cache: Directory for token ids, as in `EncodedPairs.cached`, for a corpus larger than memory. The
            batches are the same as without a cache. Training and validation pairs need a directory each.

    Returns:
        A finite dataset of known cardinality with elements `({"encoder_token_ids": (b, s),
        "decoder_token_ids": (b, t)}, labels (b, t))`, int32, padded with 0. For frames, `"encoder_features":
        (b, s, w)`, float32, and `"encoder_padding_mask": (b, s)`, boolean (False for padding), replace
        `"encoder_token_ids"`.

    Raises:
        InputError: If there are no pairs, or all are too long; or if the cache was written with other
            tokenizers, limits or texts, or cannot be written.
        TypeError: If texts come without tokenizers.
        ValueError: If a value is out of range, or options exclude each other.

    Example:
        >>> from keras_transformer.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer(["a", "b"])
        >>> dataset = translation_dataset([("ab", "ba"), ("b", "b")], tokenizer, tokenizer)
        >>> [(inputs, labels)] = dataset.as_numpy_iterator()
        >>> sorted(inputs), labels.shape
        (['decoder_token_ids', 'encoder_token_ids'], (2, 3))
    """
    order = _checked_order(shuffle, seed, first_epoch, tokens_per_batch, padded=pad_to_bucket_boundary)
    check_several(Callable, noise=noise)
    if bucket_boundaries is not None:
        check_several(Integral, bucket_boundaries=bucket_boundaries)
    if isinstance(pairs, EncodedPairs):
        if cache is not None:
            raise ValueError(f"`cache` is for texts. Received: {len(pairs)} EncodedPairs.")
        encoded = pairs
    else:
        limits = max_source_length, max_target_length
        encoded = _encode_pairs(
            pairs, *_required_tokenizers(source_tokenizer, target_tokenizer), limits, cache
        )
    steps = [*noise, _regroup_by_length(seed)] if noise and shuffle else noise
    return encoded._in_batches(
        *(tokens_per_batch, order),
        boundaries=bucket_boundaries,
        padded=pad_to_bucket_boundary,
        steps=steps,
    )


def _encode_pairs(
    pairs: Any,
    source_tokenizer: Tokenizer | FrameNormalizer,
    target_tokenizer: Tokenizer,
    limits: tuple[int, int],
    cache: str | Path | None,
) -> EncodedPairs:
    lengths: dict[str, Any] = dict(zip(("max_source_length", "max_target_length"), limits, strict=True))
    if cache is None:
        given = pairs() if callable(pairs) else pairs
        return EncodedPairs.encode(given, source_tokenizer, target_tokenizer, **lengths)
    if isinstance(source_tokenizer, FrameNormalizer):
        raise ValueError(f"`cache` is for texts. Received: cache={str(cache)!r} for frames.")
    return EncodedPairs.cached(pairs, source_tokenizer, target_tokenizer, cache, **lengths)


def _required_tokenizers(
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
    """Regroup the rows of neighboring batches, so that rows of similar length share a batch."""
    # Noise changes the lengths within batches: with subword dropout and no regrouping, Multi30k's 631,000
    # tokens took 935,000 positions.

    @tf.autograph.experimental.do_not_convert
    def regroup(number: tf.Tensor, pair: tuple[tf.RaggedTensor, tf.RaggedTensor]) -> tf.data.Dataset:
        # (batches, ragged, ragged) -> (n, ragged)
        source, target = (ids.merge_dims(0, 1) for ids in pair)
        # The batch with the most rows gets the shortest rows, and so on. This keeps the number of batches, on
        # which Keras and learning rate schedules rely.
        sizes = tf.sort(pair[0].row_lengths(), direction="DESCENDING")
        # Sorted by the longer side, then by the target.
        target_lengths = target.row_lengths()
        longer = tf.maximum(source.row_lengths(), target_lengths)
        keys = longer * (tf.reduce_max(target_lengths) + 1) + target_lengths
        batches = tf.RaggedTensor.from_row_lengths(tf.argsort(keys, stable=True), sizes)
        draw_seed = tf.stack([tf.constant(seed, tf.int64), number])
        order = tf.random.experimental.stateless_shuffle(tf.range(batches.nrows()), draw_seed)
        indices = tf.gather(batches, order)
        return tf.data.Dataset.from_tensor_slices((tf.gather(source, indices), tf.gather(target, indices)))

    return lambda dataset: dataset.ragged_batch(_NUM_REGROUPED).enumerate().flat_map(regroup)
