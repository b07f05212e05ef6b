"""Pairs of strings to pairs of token ids, within length limits."""

import dataclasses
import logging
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from keras_transformer.data.pairs import MANY_DROPPED, Pair, check_pairs, has_text
from keras_transformer.errors import InputError
from keras_transformer.text import Tokenizer

# So many texts are tokenized at once: enough for speed, few enough for the memory of a large corpus.
_CHUNK_SIZE = 8192

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class LengthCounts:
    """How many pairs fitted the limits of length, and how many did not; counts can be added."""

    num_kept: int = 0
    num_dropped: int = 0
    num_dropped_source: int = 0
    num_dropped_target: int = 0

    def __add__(self, other: "LengthCounts") -> "LengthCounts":
        sums = map(sum, zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True))
        return LengthCounts(*sums)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedPairs:
    """Token ids of n pairs, without special tokens, and how many pairs were too long."""

    source: tf.RaggedTensor
    """Source token ids, int32 (n, ragged)."""
    target: tf.RaggedTensor
    """Target token ids, int32 (n, ragged)."""
    num_dropped: int = 0
    """Pairs left out because a side was too long."""
    num_dropped_source: int = 0
    """Those of which the source was too long; a pair may be too long on both sides."""
    num_dropped_target: int = 0
    """Those of which the target was too long."""

    def __len__(self) -> int:
        """The number of pairs."""
        return int(self.source.nrows())

    def counts(self) -> "LengthCounts":
        """How many pairs there are, and were."""
        return LengthCounts(len(self), self.num_dropped, self.num_dropped_source, self.num_dropped_target)

    def lengths(self) -> np.ndarray:
        """The length of the longer side of each pair with its special token, int64 (n,)."""
        longer: np.ndarray = np.maximum(self.source_lengths(), self.target_lengths())
        return longer

    def source_lengths(self) -> np.ndarray:
        """The length of each source with its special token, int64 (n,)."""
        return _lengths(self.source)

    def target_lengths(self) -> np.ndarray:
        """The length of each target with its special token, int64 (n,)."""
        return _lengths(self.target)


def encode_pairs(
    pairs: Iterable[Pair],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    max_source_length: int = 256,
    max_target_length: int = 256,
) -> EncodedPairs:
    """Tokenizes pairs and leaves out those that are too long.

    A pair is never cut: half a sentence beside a whole translation teaches the model to
    invent or to stop early. What is left out is counted and logged as a warning, and so are pairs of which
    one side is empty, which are kept; `read_pairs` and the other readers leave them out.

    Args:
        pairs: n source and target texts; a generator is read to its end.
        source_tokenizer: tokenizer of the sources.
        target_tokenizer: tokenizer of the targets.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of a target, one special token included: the decoder
            reads it with a start token and predicts it with an end token.

    Returns:
        the token ids of the pairs that fit, in order, and the counts of the others.

    Raises:
        TypeError: a pair is not two strings.
        InputError: there are no pairs, or none fits.
        ValueError: a limit is below 2, which no text fits.
    """
    check_length_limits(max_source_length, max_target_length)
    pairs = list(pairs)
    if not pairs:
        raise InputError("There must be at least one pair. Received: 0 pairs.")
    check_pairs(pairs)
    if num_empty := sum(not has_text(pair) for pair in pairs):
        _LOGGER.warning("%d of %d pairs have no text on one side, and are kept.", num_empty, len(pairs))
    encoded = encode_fitting(pairs, source_tokenizer, target_tokenizer, max_source_length, max_target_length)
    report_dropped(encoded.counts(), max_source_length, max_target_length)
    return encoded


def check_length_limits(max_source_length: int, max_target_length: int) -> None:
    """Refuses limits that no text fits.

    Args:
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of a target, one special token included.

    Raises:
        ValueError: a limit is below 2.
    """
    if min(max_source_length, max_target_length) < 2:
        raise ValueError(
            "Length limits must be at least 2, a token and a special token. "
            f"Received: max_source_length={max_source_length}, max_target_length={max_target_length}."
        )


def encode_fitting(
    pairs: list[Pair],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_source_length: int,
    max_target_length: int,
) -> EncodedPairs:
    """Tokenizes pairs and leaves out those that are too long, without a word.

    Args:
        pairs: at least one.
        source_tokenizer: of the sources.
        target_tokenizer: of the targets.
        max_source_length: see `encode_pairs`.
        max_target_length: likewise.

    Returns:
        the token ids of the pairs that fit, perhaps none, and the counts of the others.
    """
    source = _tokenize([source for source, _ in pairs], source_tokenizer)
    target = _tokenize([target for _, target in pairs], target_tokenizer)
    long_source = _lengths(source) > max_source_length  # (n,)
    long_target = _lengths(target) > max_target_length
    dropped = long_source | long_target
    return EncodedPairs(
        source=tf.ragged.boolean_mask(source, ~dropped),
        target=tf.ragged.boolean_mask(target, ~dropped),
        num_dropped=int(dropped.sum()),
        num_dropped_source=int(long_source.sum()),
        num_dropped_target=int(long_target.sum()),
    )


def _tokenize(texts: list[str], tokenizer: Tokenizer) -> tf.RaggedTensor:
    """Tokenizes n texts in chunks to int32 (n, ragged)."""
    starts = range(0, len(texts), _CHUNK_SIZE)
    chunks = [tokenizer.tokenize(texts[start : start + _CHUNK_SIZE]) for start in starts]
    return chunks[0] if len(chunks) == 1 else tf.concat(chunks, axis=0)


def _lengths(token_ids: tf.RaggedTensor) -> np.ndarray:
    """Counts the tokens of each row and one special token, int64 (n,)."""
    return np.asarray(token_ids.row_lengths(), np.int64) + 1


def report_dropped(counts: LengthCounts, max_source_length: int, max_target_length: int) -> None:
    """Logs how many pairs were too long.

    Args:
        counts: of all pairs.
        max_source_length: the limit of the sources.
        max_target_length: the limit of the targets.

    Raises:
        InputError: that is all of them.
    """
    if not counts.num_dropped:
        return
    causes = (
        f"{counts.num_dropped_source} sources over {max_source_length} tokens, "
        f"{counts.num_dropped_target} targets over {max_target_length} tokens"
    )
    if not counts.num_kept:
        raise InputError(f"Every pair is too long. Received: {counts.num_dropped} pairs, {causes}.")
    total = counts.num_kept + counts.num_dropped
    share = counts.num_dropped / total
    hint = " That is more than 5 %: are the limits meant?" if share > MANY_DROPPED else ""
    _LOGGER.warning(
        "Dropped %d of %d pairs (%.1f %%) as too long: %s.%s",
        counts.num_dropped,
        total,
        100 * share,
        causes,
        hint,
    )
