"""Pairs of strings to pairs of token ids, within length limits."""

import dataclasses
import logging
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_transformer.data.pairs import Pair
from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer

# So many texts are tokenized at once: enough for speed, few enough for the memory of a large corpus.
_CHUNK_SIZE = 8192

_MANY_DROPPED = 0.05
"""A share of the pairs that is worth a question."""

_LOGGER = logging.getLogger(__name__)


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

    def lengths(self) -> np.ndarray:
        """The length of the longer side of each pair with its special token, int64 (n,)."""
        longer: np.ndarray = np.maximum(_lengths(self.source), self.target_lengths())
        return longer

    def target_lengths(self) -> np.ndarray:
        """The length of each target with its special token, int64 (n,)."""
        return _lengths(self.target)


def encode_pairs(
    pairs: Sequence[Pair],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    max_source_length: int = 256,
    max_target_length: int = 256,
) -> EncodedPairs:
    """Tokenizes pairs and leaves out those that are too long.

    A pair is never cut: half a sentence beside a whole translation teaches the model to
    invent or to stop early. What is left out is counted and logged as a warning.

    Args:
        pairs: n source and target texts.
        source_tokenizer: tokenizer of the sources.
        target_tokenizer: tokenizer of the targets.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of a target, one special token included: the decoder
            reads it with a start token and predicts it with an end token.

    Returns:
        the token ids of the pairs that fit, in order, and the counts of the others.

    Raises:
        InputError: there are no pairs, or none fits.
        ValueError: a limit is below 2, which no text fits.
    """
    if min(max_source_length, max_target_length) < 2:
        raise ValueError(
            "Length limits must be at least 2, a token and a special token. "
            f"Received: max_source_length={max_source_length}, max_target_length={max_target_length}."
        )
    if not pairs:
        raise InputError("There must be at least one pair. Received: 0 pairs.")
    source = _tokenize([source for source, _ in pairs], source_tokenizer)
    target = _tokenize([target for _, target in pairs], target_tokenizer)
    long_source = _lengths(source) > max_source_length  # (n,)
    long_target = _lengths(target) > max_target_length
    dropped = long_source | long_target
    encoded = EncodedPairs(
        source=tf.ragged.boolean_mask(source, ~dropped),
        target=tf.ragged.boolean_mask(target, ~dropped),
        num_dropped=int(dropped.sum()),
        num_dropped_source=int(long_source.sum()),
        num_dropped_target=int(long_target.sum()),
    )
    _report(encoded, max_source_length, max_target_length)
    return encoded


def _tokenize(texts: list[str], tokenizer: Tokenizer) -> tf.RaggedTensor:
    """Tokenizes n texts in chunks to int32 (n, ragged)."""
    starts = range(0, len(texts), _CHUNK_SIZE)
    chunks = [tokenizer.tokenize(tf.constant(texts[start : start + _CHUNK_SIZE])) for start in starts]
    return chunks[0] if len(chunks) == 1 else tf.concat(chunks, axis=0)


def _lengths(token_ids: tf.RaggedTensor) -> np.ndarray:
    """Counts the tokens of each row and one special token, int64 (n,)."""
    return np.asarray(token_ids.row_lengths(), np.int64) + 1


def _report(encoded: EncodedPairs, max_source_length: int, max_target_length: int) -> None:
    """Says how many pairs were too long, as an error when that is all of them."""
    if not encoded.num_dropped:
        return
    causes = (
        f"{encoded.num_dropped_source} sources over {max_source_length} tokens, "
        f"{encoded.num_dropped_target} targets over {max_target_length} tokens"
    )
    if not len(encoded):
        raise InputError(f"Every pair is too long. Received: {encoded.num_dropped} pairs, {causes}.")
    total = len(encoded) + encoded.num_dropped
    share = encoded.num_dropped / total
    hint = " That is more than 5 %: are the limits meant?" if share > _MANY_DROPPED else ""
    _LOGGER.warning(
        "Dropped %d of %d pairs (%.1f %%) as too long: %s.%s",
        encoded.num_dropped,
        total,
        100 * share,
        causes,
        hint,
    )
