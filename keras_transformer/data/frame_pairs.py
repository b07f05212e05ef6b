"""Normalize frames and tokenize their targets, and drop pairs that exceed the length limits."""

from collections.abc import Iterable
from typing import Self, TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import as_strings
from keras_transformer.data.encoding import (
    EncodedPairs,
    _check_length_limits,
    _lengths,
    _report_dropped,
    _tokenize,
)
from keras_transformer.data.frames import FrameNormalizer, as_frames
from keras_transformer.errors import InputError
from keras_transformer.text import Tokenizer

FramePair: TypeAlias = tuple[object, str]
"""An array `(s, w)` and its target text."""


class EncodedFrames(EncodedPairs):
    """Normalized frames, float32 (n, ragged, w), and the token ids of their targets."""

    @classmethod
    def of(
        cls,
        pairs: Iterable[FramePair],
        normalizer: FrameNormalizer,
        target_tokenizer: Tokenizer,
        *,
        max_source_length: int = 256,
        max_target_length: int = 256,
    ) -> Self:
        """Normalize frames, tokenize targets and drop pairs that are too long; see `EncodedPairs.encode`.

        Raises:
            InputError: If there are no pairs, a source has no frames, or all pairs are too long.
            TypeError: If a pair is not an array of numbers and a string.
            ValueError: If the width of an array differs from the normalizer's, or it contains NaN; see
                `as_frames`.
        """
        _check_length_limits(max_source_length, max_target_length)
        sources, targets = _sides(pairs)
        arrays = as_frames("sources", sources, normalizer.feature_dim)
        texts = as_strings(targets=targets)
        lengths = np.array([len(array) for array in arrays], "int64")
        if not len(lengths) or not lengths.min():
            received = f"{len(lengths)} pairs, {np.sum(lengths == 0)} of them without frames"
            raise InputError(f"There must be at least one pair, and a frame in each. Received: {received}.")
        frames = tf.RaggedTensor.from_row_lengths(normalizer(np.concatenate(arrays)), lengths)
        target = _tokenize(texts, target_tokenizer)
        long_source, long_target = lengths > max_source_length, _lengths(target, 1) > max_target_length
        is_kept = ~(long_source | long_target)
        encoded = cls(
            source=tf.ragged.boolean_mask(frames, is_kept),
            target=tf.ragged.boolean_mask(target, is_kept),
            num_dropped=int((~is_kept).sum()),
            num_dropped_source=int(long_source.sum()),
            num_dropped_target=int(long_target.sum()),
            source_end_ids=normalizer.end_ids,
        )
        _report_dropped(encoded.counts(), max_source_length, max_target_length)
        return encoded

    def _source_inputs(self, source: tf.RaggedTensor) -> dict[str, tf.RaggedTensor]:
        frames = tf.ones_like(source.values[:, 0], tf.bool)
        return {"encoder_features": source, "encoder_padding_mask": source.with_values(frames)}


def _sides(pairs: Iterable[FramePair]) -> tuple[list[object], list[str]]:
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise TypeError(f"`pairs` must be pairs of frames and texts. Received: pairs={pairs!r:.200}.")
    several = list(pairs)
    for number, pair in enumerate(several):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"Each pair must be an array and a string. Received: pairs[{number}]={pair!r:.200}."
            )
    return [source for source, _ in several], [target for _, target in several]
