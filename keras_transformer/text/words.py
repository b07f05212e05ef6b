"""Words of texts with their places, and their token ids: what tags of words need, in the graph."""

from typing import NamedTuple

import tensorflow as tf

from keras_transformer._arguments import check_flags, check_kind, check_positive
from keras_transformer.text.tokenizer import _MAX_BYTES, _MAX_PIECE_BYTES, Tokenizer, _as_texts
from keras_transformer.types import SPECIAL_IDS

_SPACE = r"[\p{Cc}\p{Z}\x{200b}\x{feff}]"
_PUNCTUATION = r"[\p{P}\p{S}]"


class Words(NamedTuple):
    """The words of `b` texts, and the characters that they begin with and end before."""

    words: tf.RaggedTensor
    """string (b, ragged)"""
    starts: tf.RaggedTensor
    """int32 (b, ragged), from 0"""
    ends: tf.RaggedTensor
    """int32 (b, ragged)"""


class WordIds(NamedTuple):
    """The token ids of `b` texts, and where the words are among them."""

    token_ids: tf.Tensor
    """int32 (b, s), each row ended and padded"""
    first_pieces: tf.RaggedTensor
    """int32 (b, ragged): the position of the first token of each word that was read"""
    is_cut: tf.Tensor
    """boolean (b,): whether a text had more tokens"""


def split_words(texts: tf.Tensor, *, split_punctuation: bool = True) -> Words:
    """Split texts into words.

    Words stand between white space. Punctuation and symbols at the ends of a word are words of one character:
    `(in Berlin).` has five, `don't`, `3.5` and `U.S` one each.

    Args:
        texts: string (b,); bytes that are not UTF-8 count as characters.
        split_punctuation: False for texts whose tokens are separated already.

    Returns:
        The words, with their places in characters.

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
    # A word begins after a space or a mark, and with a mark.
    begins = ~is_space & (is_alone | is_first | _before(is_space | is_alone))
    numbers = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    numbers, kept = tf.boolean_mask(numbers, ~is_space), tf.boolean_mask(flat, ~is_space)
    num_words = tf.reduce_sum(tf.cast(begins, tf.int32))
    words = tf.strings.unsorted_segment_join(kept, numbers, num_words)
    starts = tf.boolean_mask(index, begins)
    ends = starts + tf.math.unsorted_segment_sum(tf.ones_like(numbers), numbers, num_words)
    sizes = tf.math.unsorted_segment_sum(tf.cast(begins, tf.int64), rows, characters.nrows())
    return Words(*(tf.RaggedTensor.from_row_lengths(each, sizes) for each in (words, starts, ends)))


def _before(flags: tf.Tensor) -> tf.Tensor:
    return tf.concat([[False], flags[:-1]], axis=0)


def _is_inside(is_boundary: tf.Tensor, is_letter: tf.Tensor) -> tf.Tensor:
    """Return which characters (n,) have letters before and after them, up to the next boundaries."""
    chunks = tf.cumsum(tf.cast(is_boundary, tf.int32))
    size = tf.size(chunks) + 1
    letters = tf.cast(is_letter, tf.int32)
    before = tf.cumsum(letters, exclusive=True)
    first = tf.gather(tf.math.unsorted_segment_min(before, chunks, size), chunks)
    last = tf.gather(tf.math.unsorted_segment_max(before + letters, chunks, size), chunks)
    return (before > first) & (before + letters < last)


def encode_words(tokenizer: Tokenizer, words: tf.RaggedTensor, max_length: int) -> WordIds:
    """Tokenize the words of texts one by one.

    A subword tokenizer that splits at white space gives the same ids as for words with a space between them.
    A word that it reads nothing of is an unknown token, so that each word has a first one.

    Args:
        tokenizer: The tokenizer of the model.
        words: string (b, ragged).
        max_length: Maximum number of tokens of a text, the end token included; what follows is cut off.

    Returns:
        The token ids, and where each word begins among them.
    """
    check_kind(Tokenizer, tokenizer=tokenizer)
    check_positive(max_length=max_length)
    num_before, room = len(tokenizer.prefix_ids), max_length - len(tokenizer.end_ids)
    # No more are read: each has a token. A word of a megabyte would take a subword tokenizer long.
    is_cut = words.row_lengths() > room
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
    first_pieces = tf.ragged.boolean_mask(words.with_values(starts), words.with_values(starts < room))
    prefix, end = (
        tf.tile(tf.constant([ids], tf.int32, [1, len(ids)]), [words.nrows(), 1])
        for ids in (tokenizer.prefix_ids, tokenizer.end_ids)
    )
    rows = tf.concat([prefix, words.with_values(pieces).merge_dims(1, 2)], axis=1)
    is_cut |= rows.row_lengths() > room
    token_ids = tf.concat([rows[:, :room], end], axis=1).to_tensor(SPECIAL_IDS.pad)
    return WordIds(token_ids, first_pieces, is_cut)
