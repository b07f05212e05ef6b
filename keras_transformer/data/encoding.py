"""Pairs of strings to pairs of token ids, within length limits."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable

import numpy as np
import tensorflow as tf
from typing_extensions import Self

from keras_transformer.data.pairs import _has_text, _is_pair, _log_dropped
from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import Pair

# So many texts are tokenized at once: enough for speed, few enough for the memory of a large corpus.
_CHUNK_SIZE = 8192

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
    """Those with a source that was too long; a pair may be too long on both sides."""
    num_dropped_target: int = 0
    """Those with a target that was too long."""

    @classmethod
    def encode(
        cls,
        pairs: Iterable[Pair],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        max_source_length: int = 256,
        max_target_length: int = 256,
    ) -> Self:
        """Tokenize pairs and leave out those that are too long.

        A pair is never cut: half a sentence next to a whole translation teaches the model to
        invent or to stop early. What is left out is counted and logged as a warning, and so are pairs
        with an empty side, which are kept; `read_pairs` leaves them out.

        Args:
            pairs: n source and target texts; a generator is read to its end.
            source_tokenizer: tokenizer of the sources.
            target_tokenizer: tokenizer of the targets.
            max_source_length: most tokens of a source, the end token included.
            max_target_length: most tokens of a target, one special token included: the decoder
                reads it with a start token and predicts it with an end token.

        Returns:
            The token ids of the pairs that fit, in order, and the counts of the others.

        Raises:
            TypeError: a pair is not two strings.
            InputError: there are no pairs, or none fits.
            ValueError: a limit is below 2, which no text fits.
        """
        _check_length_limits(max_source_length, max_target_length)
        pairs = list(pairs)
        if not pairs:
            raise InputError("There must be at least one pair. Received: 0 pairs.")
        for number, pair in enumerate(pairs):
            if not _is_pair(pair):
                raise TypeError(f"Each pair must be two strings. Received: pairs[{number}]={pair!r}.")
        if num_empty := sum(not _has_text(pair) for pair in pairs):
            _LOGGER.warning("%d of %d pairs have no text on one side, and are kept.", num_empty, len(pairs))
        tokenizers, limits = (source_tokenizer, target_tokenizer), (max_source_length, max_target_length)
        encoded = cls.encode_fitting(pairs, tokenizers, limits)
        _report_dropped(encoded.counts(), *limits)
        return encoded

    @classmethod
    def encode_fitting(
        cls, pairs: list[Pair], tokenizers: tuple[Tokenizer, Tokenizer], limits: tuple[int, int]
    ) -> Self:
        """Tokenize at least one pair without checks and warnings; perhaps none fits."""
        texts = zip(*pairs, strict=True)
        source, target = (_tokenize(list(side), each) for side, each in zip(texts, tokenizers, strict=True))
        # (n, ragged) -> (n,)
        long_source = _lengths(source) > limits[0]
        long_target = _lengths(target) > limits[1]
        dropped = long_source | long_target
        return cls(
            source=tf.ragged.boolean_mask(source, ~dropped),
            target=tf.ragged.boolean_mask(target, ~dropped),
            num_dropped=int(dropped.sum()),
            num_dropped_source=int(long_source.sum()),
            num_dropped_target=int(long_target.sum()),
        )

    def __len__(self) -> int:
        return int(self.source.nrows())

    @tf.autograph.experimental.do_not_convert
    def _rows(self, indices: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        return tf.gather(self.source, indices), tf.gather(self.target, indices)

    def lengths(self) -> np.ndarray:
        """Return the lengths of each source and target with one special token, int64 (n, 2)."""
        return np.stack([_lengths(self.source), _lengths(self.target)], axis=1)

    def counts(self) -> Counter[str]:
        """Return how many pairs there are, and were; counts of several chunks can be added."""
        return Counter(
            kept=len(self),
            dropped=self.num_dropped,
            sources=self.num_dropped_source,
            targets=self.num_dropped_target,
        )


def _check_length_limits(max_source_length: int, max_target_length: int) -> None:
    if min(max_source_length, max_target_length) < 2:
        raise ValueError(
            "Length limits must be at least 2, a token and a special token. "
            f"Received: max_source_length={max_source_length}, max_target_length={max_target_length}."
        )


def _report_dropped(counts: Counter[str], max_source_length: int, max_target_length: int) -> None:
    """Log how many pairs were too long; raise InputError if all were."""
    if not counts["dropped"]:
        return
    causes = (
        f"{counts['sources']} sources over {max_source_length} tokens, "
        f"{counts['targets']} targets over {max_target_length} tokens"
    )
    if not counts["kept"]:
        raise InputError(f"Every pair is too long. Received: {counts['dropped']} pairs, {causes}.")
    total = counts["kept"] + counts["dropped"]
    _log_dropped(counts["dropped"], total, f"as too long: {causes}", "are the limits meant")


def _tokenize(texts: list[str], tokenizer: Tokenizer) -> tf.RaggedTensor:
    """Tokenize n texts in chunks to int32 (n, ragged)."""
    starts = range(0, len(texts), _CHUNK_SIZE)
    chunks = [tokenizer.tokenize(texts[start : start + _CHUNK_SIZE]) for start in starts]
    return chunks[0] if len(chunks) == 1 else tf.concat(chunks, axis=0)


def _lengths(token_ids: tf.RaggedTensor) -> np.ndarray:
    """Count the tokens of each row and one special token, int64 (n,)."""
    return np.asarray(token_ids.row_lengths(), np.int64) + 1
