"""Pairs that are read and tokenized while a model trains on them, chunk by chunk."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

import tensorflow as tf

from keras_transformer.data.encoding import (
    EncodedPairs,
    LengthCounts,
    check_length_limits,
    encode_fitting,
    report_dropped,
)
from keras_transformer.data.pairs import Pair, has_text, report_empty
from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer

PairSource: TypeAlias = Iterable[Pair] | Callable[[], Iterable[Pair]] | tf.data.Dataset


class Chunks(Protocol):
    """Encoded pairs in chunks, which can be iterated over any number of times."""

    def __iter__(self) -> Iterator[EncodedPairs]: ...


class EncodedChunks:
    """Tokenizes pairs anew in each iteration, and counts those that are too long in the first.

    Args:
        pairs: see `streamed_dataset`.
        source_tokenizer: of the sources.
        target_tokenizer: of the targets.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of a target, one special token included.
        chunk_size: pairs of a chunk.

    Raises:
        TypeError: the pairs can be iterated over only once.
        ValueError: a limit is below 2, or the size below 1.
    """

    def __init__(
        self,
        pairs: PairSource,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        max_source_length: int,
        max_target_length: int,
        chunk_size: int,
    ) -> None:
        check_length_limits(max_source_length, max_target_length)
        if chunk_size < 1:
            raise ValueError(f"`chunk_size` must be at least 1. Received: chunk_size={chunk_size}.")
        if isinstance(pairs, Iterator):
            raise TypeError(
                "`pairs` must give the pairs anew for each epoch: a function that returns a generator, a "
                f"`tf.data.Dataset` or a list. Received: an iterator of class {type(pairs).__name__}."
            )
        self._pairs = pairs
        self._tokenizers = (source_tokenizer, target_tokenizer)
        self._limits = (max_source_length, max_target_length)
        self._chunk_size = chunk_size
        self._is_first = True

    @property
    def description(self) -> dict[str, Any]:
        """All that decides the chunks, but for the texts."""
        source, target = (tokenizer.fingerprint() for tokenizer in self._tokenizers)
        return {
            "source_tokenizer": source,
            "target_tokenizer": target,
            "max_source_length": self._limits[0],
            "max_target_length": self._limits[1],
            "chunk_size": self._chunk_size,
        }

    def __iter__(self) -> Iterator[EncodedPairs]:
        """Give the chunks that have pairs; the counts are logged at the end.

        Raises:
            InputError: there are no pairs, or none fits.
        """
        counts, is_kept = LengthCounts(), Counter[bool]()
        pairs = _with_text(self._pairs() if callable(self._pairs) else self._pairs, is_kept)
        while chunk := list(itertools.islice(pairs, self._chunk_size)):
            encoded = encode_fitting(chunk, *self._tokenizers, *self._limits)
            counts += encoded.counts()
            if len(encoded):
                yield encoded
        if counts == LengthCounts():
            raise InputError("There must be at least one pair with text on both sides. Received: none.")
        if self._is_first:
            report_empty(is_kept[False], is_kept.total(), "the stream")
        if self._is_first or not counts.num_kept:
            report_dropped(counts, *self._limits)
        self._is_first = False


def _with_text(pairs: Iterable[Pair], is_kept: Counter[bool]) -> Iterator[Pair]:
    """Leave out pairs of which one side is empty, as `drop_empty_pairs` does, and count both kinds."""
    rows = pairs.as_numpy_iterator() if isinstance(pairs, tf.data.Dataset) else pairs
    for row in rows:
        if not _is_pair(row):
            wanted = "Each element must be a pair of texts, source and target."
            raise InputError(f"{wanted} Received: {row!r:.200}.")
        # As text: the white space of bytes is that of ASCII alone.
        source, target = (
            text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in row
        )
        keep = has_text((source, target))
        is_kept[keep] += 1
        if keep:
            yield source, target


def _is_pair(row: Any) -> bool:
    is_sequence = isinstance(row, tuple | list) and len(row) == 2
    return is_sequence and all(isinstance(text, str | bytes) for text in row)
