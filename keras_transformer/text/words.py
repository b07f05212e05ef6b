"""Words of texts with their character offsets and token ids, in the graph, for token classification."""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer._arguments import check_flags, check_kind, check_number
from keras_transformer.text.tokenizer import _MAX_BYTES, _MAX_PIECE_BYTES, Tokenizer, _as_texts, _padded
from keras_transformer.types import SPECIAL_IDS

_SPACE = r"[\p{Cc}\p{Z}\x{200b}\x{feff}]"
_PUNCTUATION = r"[\p{P}\p{S}]"


class Words(NamedTuple):
    """Words of `b` texts with their start and end offsets in characters."""

    words: tf.RaggedTensor
    """string (b, ragged): The words."""
    starts: tf.RaggedTensor
    """int32 (b, ragged): Offset of the first character of each word, from 0."""
    ends: tf.RaggedTensor
    """int32 (b, ragged): Offset after the last character of each word."""


class WordIds(NamedTuple):
    """Token ids of `b` texts, and the positions of their words."""

    token_ids: tf.Tensor
    """int32 (b, s): Token ids with end tokens, padded."""
    first_pieces: tf.RaggedTensor
    """int32 (b, ragged): Position of the first token of each word that was not cut off."""
    is_cut: tf.Tensor
    """boolean (b,): Whether a text was truncated."""


def split_words(texts: tf.Tensor, *, split_punctuation: bool = True) -> Words:
    """Split texts into words.

    Words are separated by white space. Punctuation and symbols at the start or end of a word become words of
    one character: `(in Berlin).` has five words; `don't`, `3.5` and `U.S` are one word each.

    Args:
        texts: string (b,). Invalid UTF-8 bytes count as characters.
        split_punctuation: Whether to split off punctuation. Pass False for texts that are already tokenized.

    Returns:
        The words with their offsets in characters.

    Example:
        >>> split_words(tf.constant(["in Berlin."])).words.to_list()
        [[b'in', b'Berlin', b'.']]
    """
    check_flags(split_punctuation=split_punctuation)
    characters = tf.strings.unicode_split(_as_texts(texts), "UTF-8", errors="replace")  # (b, ragged)
    flat, rows = characters.flat_values, characters.value_rowids()
    index = tf.range(tf.size(flat)) - tf.cast(tf.gather(characters.row_starts(), rows), tf.int32)
    is_space, is_first = tf.strings.regex_full_match(flat, _SPACE), index == 0
    is_alone = tf.zeros_like(is_space)
    if split_punctuation:
        is_mark = tf.strings.regex_full_match(flat, _PUNCTUATION)
        is_alone = is_mark & ~_is_inside(is_space | is_first, ~(is_space | is_mark))
    # A word begins after white space and after split-off punctuation, which is a word itself.
    begins = ~is_space & (is_alone | is_first | _shifted(is_space | is_alone))
    numbers = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    numbers, kept = tf.boolean_mask(numbers, ~is_space), tf.boolean_mask(flat, ~is_space)
    num_words = tf.reduce_sum(tf.cast(begins, tf.int32))
    words = tf.strings.unsorted_segment_join(kept, numbers, num_words)
    starts = tf.boolean_mask(index, begins)
    ends = starts + tf.math.unsorted_segment_sum(tf.ones_like(numbers), numbers, num_words)
    sizes = tf.math.unsorted_segment_sum(tf.cast(begins, tf.int64), rows, characters.nrows())
    return Words(*(tf.RaggedTensor.from_row_lengths(each, sizes) for each in (words, starts, ends)))


def _shifted(flags: tf.Tensor) -> tf.Tensor:
    return tf.concat([[False], flags[:-1]], axis=0)


def _is_inside(is_boundary: tf.Tensor, is_letter: tf.Tensor) -> tf.Tensor:
    """Return which characters (n,) have letters on both sides before the next boundary."""
    chunks = tf.cumsum(tf.cast(is_boundary, tf.int32))
    size = tf.size(chunks) + 1
    letters = tf.cast(is_letter, tf.int32)
    before = tf.cumsum(letters, exclusive=True)
    first = tf.gather(tf.math.unsorted_segment_min(before, chunks, size), chunks)
    last = tf.gather(tf.math.unsorted_segment_max(before + letters, chunks, size), chunks)
    return (before > first) & (before + letters < last)


def encode_words(tokenizer: Tokenizer, words: tf.RaggedTensor, max_length: int) -> WordIds:
    """Tokenize the words of texts one by one.

    For a subword tokenizer that splits at white space, the ids equal those of the words joined with spaces. A
    word without tokens becomes the unknown token, so every word has a first token.

    Args:
        tokenizer: Tokenizer of the model.
        words: string (b, ragged).
        max_length: Maximum number of tokens of a text, including the end token. Longer texts are truncated.

    Returns:
        The token ids, and the position of the first token of each word.
    """
    check_kind(Tokenizer, tokenizer=tokenizer)
    check_number(at_least=max(1, len(tokenizer.end_ids)), whole=True, max_length=max_length)
    num_before, max_tokens = len(tokenizer.prefix_ids), max_length - len(tokenizer.end_ids)
    # Every word has at least one token, so later words cannot fit. Words are truncated too, because a subword
    # tokenizer takes long for a word of a megabyte.
    is_cut = words.row_lengths() > max_tokens
    words = words[:, :max_length]
    limit = max(_MAX_BYTES // max_length, _MAX_PIECE_BYTES)
    is_cut |= tf.reduce_any(words.with_values(tf.strings.length(words.flat_values) > limit), axis=1)
    pieces = tokenizer.tokenize(tf.strings.substr(words.flat_values, 0, limit))[:, num_before:]
    is_unknown = pieces.row_lengths() == 0
    unknown = tf.fill([tf.math.count_nonzero(is_unknown)], SPECIAL_IDS.unknown)
    fill = tf.RaggedTensor.from_row_lengths(unknown, tf.cast(is_unknown, tf.int64))
    pieces = tf.concat([pieces, fill], axis=1)
    sizes = tf.cast(pieces.row_lengths(), tf.int32)
    ends = tf.concat([[0], tf.cumsum(sizes)], axis=0)
    of_row = tf.gather(tf.gather(ends, words.row_starts()), words.value_rowids())
    starts = ends[:-1] - of_row + num_before
    is_read = words.with_values(starts < max_tokens)
    first_pieces = tf.ragged.boolean_mask(words.with_values(starts), is_read)
    prefix, end = (
        tf.tile(tf.constant([ids], tf.int32, [1, len(ids)]), [words.nrows(), 1])
        for ids in (tokenizer.prefix_ids, tokenizer.end_ids)
    )
    rows = tf.concat([prefix, words.with_values(pieces).merge_dims(1, 2)], axis=1)
    is_cut |= rows.row_lengths() > max_tokens
    return WordIds(_padded(tf.concat([rows[:, :max_tokens], end], axis=1)), first_pieces, is_cut)
