"""Tokenize sentence pairs and drop those that exceed the length limits."""

import dataclasses
import functools
import itertools
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import as_pairs, as_strings, check_kind, check_number, is_pair
from keras_transformer._files import Checksums, as_path
from keras_transformer.data.batching import _Encoded
from keras_transformer.data.frames import FrameNormalizer, Frames, as_frames
from keras_transformer.data.id_cache import _read_cache, _StoredRows, _write_cache
from keras_transformer.data.pairs import _has_text, _log_dropped, _report_empty
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS, Pair

Example: TypeAlias = tuple[dict[str, tf.Tensor], tf.Tensor]  # inputs by name, and labels
FramePair: TypeAlias = tuple[object, str]  # an array `(s, w)` and its target text
PairSource: TypeAlias = Iterable[Pair] | Callable[[], Iterable[Pair]] | tf.data.Dataset

# Texts tokenized at once: enough for speed, and small in memory.
_CHUNK_SIZE = 8192

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedPairs(_Encoded):
    """Token ids of n sentence pairs, without special tokens, and the number of dropped pairs.

    The source may also be frames.
    """

    source: tf.RaggedTensor | _StoredRows
    """Source token ids, int32 (n, ragged), on disk if read from a cache; or normalized frames, float32
    (n, ragged, w)."""
    target: tf.RaggedTensor | _StoredRows
    """Target token ids, int32 (n, ragged). On disk if read from a cache."""
    num_dropped: int = 0
    """Number of pairs dropped because the source or the target was too long."""
    num_dropped_source: int = 0
    """Number of pairs whose source was too long. The target may be too long as well."""
    num_dropped_target: int = 0
    """Number of pairs whose target was too long. The source may be too long as well."""
    source_end_ids: tuple[int, ...] = (SPECIAL_IDS.end,)
    """Token ids appended to each source: `end_ids` of its reader."""

    @classmethod
    def encode(
        cls,
        pairs: Iterable[Pair] | Iterable[FramePair],
        source_tokenizer: Tokenizer | FrameNormalizer,
        target_tokenizer: Tokenizer,
        *,
        max_source_length: int = 256,
        max_target_length: int = 256,
    ) -> Self:
        """Tokenize pairs in memory, or normalize frames and tokenize their targets; drop too long pairs.

        Pairs are never truncated: half a sentence with a whole translation teaches the model to invent text
        or to stop early. Dropped pairs are logged as a warning. Pairs with an empty side are logged, too, but
        kept (`read_pairs` drops them).

        Args:
            pairs: n pairs of source and target text, or of an array `(s, w)` and its target text; or a
                generator of pairs.
            source_tokenizer: Tokenizer of the sources; for frames, a `FrameNormalizer`.
            target_tokenizer: Tokenizer of the targets.
            max_source_length: Maximum number of tokens of a source, including the end token, or of frames.
            max_target_length: Maximum number of tokens of a target, including one special token: the start
                token in the decoder's input, the end token in the labels.

        Returns:
            The token ids of the kept pairs, in order, and the numbers of dropped pairs.

        Raises:
            InputError: If there are no pairs, a source has no frames, or all pairs are too long.
            TypeError: If a pair is not two strings, or not an array of numbers and a string.
            ValueError: If a limit is below 2, the width of an array differs from the normalizer's, or it
                contains NaN; see `as_frames`.
        """
        check_kind(Tokenizer, FrameNormalizer, source_tokenizer=source_tokenizer)
        check_kind(Tokenizer, target_tokenizer=target_tokenizer)
        _check_length_limits(max_source_length, max_target_length)
        if is_text := not isinstance(source_tokenizer, FrameNormalizer):
            several: list[Any] = as_pairs(pairs=pairs)
        else:
            several = _frame_pairs(pairs, source_tokenizer.feature_dim)
        if not several:
            raise InputError("There must be at least one pair. Received: 0 pairs.")
        if is_text and (num_empty := sum(not _has_text(pair) for pair in several)):
            _LOGGER.warning("%d of %d pairs have no text on one side, and are kept.", num_empty, len(several))
        tokenizers, limits = (source_tokenizer, target_tokenizer), (max_source_length, max_target_length)
        encoded = cls.encode_fitting(several, tokenizers, limits)
        _report_dropped(encoded.counts(), *limits)
        return encoded

    @classmethod
    def cached(
        cls,
        pairs: PairSource,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        directory: str | Path,
        *,
        max_source_length: int = 256,
        max_target_length: int = 256,
        progress: Callable[[int], None] | None = None,
    ) -> Self:
        """Tokenize a corpus larger than memory into a directory, or load it from there.

        Uses all CPU cores. The token ids stay on disk; memory holds 8 bytes per pair. An existing cache must
        have been written with the same tokenizers and limits, and from the same list or files, whose checksum
        is computed each time. The texts of a generator, function or `tf.data.Dataset` are not compared: use a
        new directory if they change.

        Args:
            pairs: A generator, a function that returns one, a `tf.data.Dataset` of string pairs,
                `ParallelText` or a list. Pairs with an empty side are dropped.
            source_tokenizer: Tokenizer of the sources.
            target_tokenizer: Tokenizer of the targets.
            directory: Directory of the token ids. Appears only when it is complete.
            max_source_length: As for `encode`.
            max_target_length: As for `encode`.
            progress: Called after each chunk with the number of pairs tokenized in it.

        Returns:
            The token ids of the kept pairs, in order, and the numbers of dropped pairs.

        Raises:
            InputError: As for `encode`; or if the directory is damaged, was written with other tokenizers,
                limits or texts, or cannot be written.
            ValueError: If a limit is below 2.
        """
        check_kind(Tokenizer, source_tokenizer=source_tokenizer, target_tokenizer=target_tokenizer)
        _check_length_limits(max_source_length, max_target_length)
        tokenizers, limits = (source_tokenizer, target_tokenizer), (max_source_length, max_target_length)
        path, description = as_path(directory), _description(pairs, tokenizers, limits)
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            chunks = _encoded_chunks(pairs, tokenizers, limits)
            parts = ((each.source, each.target, each.counts()) for each in chunks)
            _write_cache(path, parts, description, progress)
        return cls(**_read_cache(path, description), source_end_ids=tuple(source_tokenizer.end_ids))

    @classmethod
    def encode_fitting(
        cls,
        pairs: list[Any],
        tokenizers: tuple[Tokenizer | FrameNormalizer, Tokenizer],
        limits: tuple[int, int],
    ) -> Self:
        """Tokenize one or more pairs and drop too long ones, possibly all, without checks or warnings."""
        texts = zip(*pairs, strict=True)
        source, target = (_tokenize(list(side), each) for side, each in zip(texts, tokenizers, strict=True))
        # (n, ragged) -> (n,)
        ends = tuple(tokenizers[0].end_ids)
        long_source = _lengths(source, len(ends)) > limits[0]
        long_target = _lengths(target, 1) > limits[1]
        dropped = long_source | long_target
        return cls(
            source=tf.ragged.boolean_mask(source, ~dropped),
            target=tf.ragged.boolean_mask(target, ~dropped),
            num_dropped=int(dropped.sum()),
            num_dropped_source=int(long_source.sum()),
            num_dropped_target=int(long_target.sum()),
            source_end_ids=ends,
        )

    def __len__(self) -> int:
        return int(self.source.nrows())

    @tf.autograph.experimental.do_not_convert
    def _rows(self, indices: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        source, target = (
            side.gather(indices) if isinstance(side, _StoredRows) else tf.gather(side, indices)
            for side in (self.source, self.target)
        )
        return source, target

    def _example(self, source: tf.RaggedTensor, target: tf.RaggedTensor) -> Example:
        """Build the decoder inputs and labels, shifted by one position (teacher forcing)."""
        start, end = (
            tf.fill([target.nrows(), 1], tf.constant(token_id, tf.int32))  # (b, 1)
            for token_id in (SPECIAL_IDS.start, SPECIAL_IDS.end)
        )
        decoder = {"decoder_token_ids": tf.concat([start, target], axis=1)}
        return {**self._source_inputs(source), **decoder}, tf.concat([target, end], axis=1)

    def _source_inputs(self, source: tf.RaggedTensor) -> dict[str, tf.RaggedTensor]:
        """Return the encoder inputs by name."""
        if source.flat_values.shape.rank == 2:  # frames
            is_frame = tf.ones_like(source.values[:, 0], tf.bool)
            return {"encoder_features": source, "encoder_padding_mask": source.with_values(is_frame)}
        ends = tf.tile(tf.constant([self.source_end_ids], tf.int32), [source.nrows(), 1])
        return {"encoder_token_ids": tf.concat([source, ends], axis=1)}

    def lengths(self) -> np.ndarray:
        """Return the lengths of each source and target, int32 (n, 2), with their end tokens."""
        return np.stack([_lengths(self.source, len(self.source_end_ids)), _lengths(self.target, 1)], axis=1)

    def counts(self) -> Counter[str]:
        """Return the numbers of kept and dropped pairs. The counters of parts of a corpus can be added."""
        return Counter(
            kept=len(self),
            dropped=self.num_dropped,
            sources=self.num_dropped_source,
            targets=self.num_dropped_target,
        )


def _description(
    pairs: PairSource, tokenizers: tuple[Tokenizer, Tokenizer], limits: tuple[int, int]
) -> dict[str, object]:
    """Return what determines the token ids of a cache; the corpus is None if it is a stream."""
    source, target = (tokenizer.fingerprint() for tokenizer in tokenizers)
    corpus = None
    if isinstance(pairs, ParallelText):
        corpus = pairs.fingerprint()
    elif isinstance(pairs, Sequence):
        corpus = Checksums.of_each([*map(_decoded, pair)] if is_pair(pair) else repr(pair) for pair in pairs)
    return {
        "corpus": corpus,
        "source_tokenizer": source,
        "target_tokenizer": target,
        "vocabulary_sizes": [tokenizer.vocabulary_size for tokenizer in tokenizers],
        "max_source_length": limits[0],
        "max_target_length": limits[1],
    }


def _encoded_chunks(
    pairs: PairSource, tokenizers: tuple[Tokenizer, Tokenizer], limits: tuple[int, int]
) -> Iterator[EncodedPairs]:
    """Tokenize pairs in chunks, in order; at the end, raise InputError if no pair was kept."""
    counts, is_kept = Counter[str](), Counter[bool]()
    texts = _drop_empty(pairs() if callable(pairs) else pairs, is_kept)
    encode = functools.partial(EncodedPairs.encode_fitting, tokenizers=tokenizers, limits=limits)
    for encoded in _encode_ahead(encode, iter(lambda: list(itertools.islice(texts, _CHUNK_SIZE)), [])):
        counts += encoded.counts()
        yield encoded
    if not counts:
        raise InputError("There must be at least one pair with text on both sides. Received: none.")
    _report_empty(is_kept[False], is_kept.total(), "the stream")
    _report_dropped(counts, *limits)


def _encode_ahead(
    encode: Callable[[list[Pair]], EncodedPairs], chunks: Iterator[list[Pair]]
) -> Iterator[EncodedPairs]:
    """Encode chunks ahead of the consumer, one thread per core, and yield them in order."""
    # Threads, because the operations of all tokenizers release the GIL: two threads use 1.98 of two cores.
    # Processes would each load TensorFlow, and need an `if __name__ == "__main__"` guard.
    num_threads = os.cpu_count() or 1
    with ThreadPoolExecutor(num_threads) as pool:
        waiting: deque[Future[EncodedPairs]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(encode, chunk))
            if len(waiting) > num_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _drop_empty(pairs: Iterable[Pair], is_kept: Counter[bool]) -> Iterator[Pair]:
    """Drop pairs with an empty side, as `read_pairs` does, and count kept and dropped pairs."""
    for row in pairs.as_numpy_iterator() if isinstance(pairs, tf.data.Dataset) else pairs:
        if not is_pair(row):
            wanted = "Each element must be a pair of texts, source and target."
            raise InputError(f"{wanted} Received: {row!r:.200}.")
        # Decoded, because `bytes.strip` removes only ASCII white space.
        source, target = map(_decoded, row)
        keep = _has_text((source, target))
        is_kept[keep] += 1
        if keep:
            yield source, target


def _decoded(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _check_length_limits(max_source_length: int, max_target_length: int) -> None:
    check_number(whole=True, max_source_length=max_source_length, max_target_length=max_target_length)
    if min(max_source_length, max_target_length) < 2:
        raise ValueError(
            "Length limits must be at least 2, a token and a special token. "
            f"Received: max_source_length={max_source_length}, max_target_length={max_target_length}."
        )


def _report_dropped(counts: Counter[str], max_source_length: int, max_target_length: int) -> None:
    """Log how many pairs were too long; raise InputError if no pair is left."""
    if not counts["dropped"]:
        return
    causes = (
        f"{counts['sources']} sources over {max_source_length} tokens, "
        f"{counts['targets']} targets over {max_target_length} tokens"
    )
    if not counts["kept"]:
        raise InputError(f"Every pair is too long. Received: {counts['dropped']} pairs, {causes}.")
    total = counts["kept"] + counts["dropped"]
    _log_dropped(counts["dropped"], total, f"as too long: {causes}", "are the limits intended")


def _frame_pairs(pairs: Any, feature_dim: int) -> list[tuple[Frames, str]]:
    """Return pairs of frames and texts; raise an error unless each has at least one frame."""
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise TypeError(f"`pairs` must be pairs of frames and texts. Received: pairs={pairs!r:.200}.")
    several = list(pairs)
    for number, pair in enumerate(several):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"Each pair must be an array and a string. Received: pairs[{number}]={pair!r:.200}."
            )
    arrays = as_frames("sources", [source for source, _ in several], feature_dim)
    if num_empty := sum(not len(array) for array in arrays):
        received = f"{len(arrays)} pairs, {num_empty} of them without frames"
        raise InputError(f"There must be a frame in each source. Received: {received}.")
    return list(zip(arrays, as_strings(targets=[target for _, target in several]), strict=True))


def _tokenize(values: list[Any], tokenizer: Tokenizer | FrameNormalizer) -> tf.RaggedTensor:
    """Tokenize n texts in chunks, int32 (n, ragged), or normalize frames, float32 (n, ragged, w)."""
    if isinstance(tokenizer, FrameNormalizer):
        frames = tokenizer(np.concatenate(values))
        return tf.RaggedTensor.from_row_lengths(frames, [len(value) for value in values])
    texts = values
    starts = range(0, len(texts), _CHUNK_SIZE)
    chunks = [tokenizer.tokenize(texts[start : start + _CHUNK_SIZE]) for start in starts]
    return chunks[0] if len(chunks) == 1 else tf.concat(chunks, axis=0)


def _lengths(token_ids: tf.RaggedTensor | _StoredRows, num_special: int) -> np.ndarray:
    """Return the length of each row plus its number of special tokens, int32 (n,)."""
    return np.asarray(token_ids.row_lengths(), np.int32) + num_special
