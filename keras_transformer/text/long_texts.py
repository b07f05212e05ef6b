"""Split long texts into sentences, and sentences that are too long into parts.

Only core TensorFlow operations are used, so an export can split texts too.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_transformer.text.tokenizer import Tokenizer

_SPACES = r"\s\v\x{1C}-\x{1F}\x{85}\p{Z}"
_SPACE = f"[{_SPACES}]"
_LINE_BREAK = r"[\n\r\v\f\x{85}\x{2028}\x{2029}]"
_QUOTES = r"\"'\x{AB}\x{BB}\x{2018}-\x{201F}\x{2039}\x{203A}"
_CLOSING = rf"[{_QUOTES}\)\]\}}\x{{3009}}\x{{300B}}\x{{300D}}\x{{300F}}\x{{3011}}\x{{3015}}\x{{FF09}}]*"
_CLOSING += r"(?:\p{Zs}[\x{BB}\x{203A}])?"  # French closes quotations with a space and a guillemet
# Final punctuation of Latin, Arabic, Urdu, Devanagari, Armenian, Ethiopic and Burmese scripts.
_MARKS = r"!?\x{2026}\x{203C}\x{2047}-\x{2049}\x{61F}\x{6D4}\x{964}\x{965}\x{589}\x{1362}\x{104B}"
# A period ends a sentence if white space follows (unlike "3.5") and more than one letter precedes (unlike "z.
# B.").
_POINT = rf"[^{_SPACES}.][^{_SPACES}.]\."
_END = rf"(?:{_POINT}|[{_MARKS}])[.{_MARKS}]*{_CLOSING}"
# Chinese and Japanese punctuation is followed by no space.
_WIDE_END = rf"[\x{{3002}}\x{{FF01}}\x{{FF0E}}\x{{FF1F}}\x{{FF61}}]+{_CLOSING}"
_SENTENCES = rf"({_END})({_SPACE}+)|({_WIDE_END})({_SPACE}*)|({_SPACE}*{_LINE_BREAK}{_SPACE}*)"
_WORDS = rf"([\x{{3001}}\x{{FF0C}}\x{{FF1A}}\x{{FF1B}}\x{{FF64}}])({_SPACE}*)|({_SPACE}+)"

# `_MARK` encloses each separator. A text may contain any character, so `_ESCAPE` in a text is escaped.
_ESCAPE = "\x01"
_ESCAPED, _MARK = f"{_ESCAPE}a", f"{_ESCAPE}b"
# A lower-case letter continues the sentence, as in "approx. five" and '"Why?" she asked'.
_WITHIN = rf"{_MARK}([\t\p{{Zs}}]+){_MARK}([{_QUOTES}\(\[\{{\x{{2013}}\x{{2014}}-]*\p{{Ll}})"

# Matches texts that end in a script without spaces, and empty texts.
_WIDE = r"[\p{Han}\p{Hiragana}\p{Katakana}\x{3000}-\x{303F}\x{FF00}-\x{FFEF}]"
_ENDS_WIDE = rf"(?s)(?:.*{_WIDE}{_CLOSING})?"
# A sentence of more bytes counts as too long, without counting its tokens.
_MAX_BYTES = 2**16


class TextPieces(NamedTuple):
    """Pieces of split texts. The pieces of a text, joined with their separators, are the text again."""

    pieces: tf.Tensor
    """string `(p,)`: The pieces in the order of the texts, at least one per text."""
    separators: tf.Tensor
    """string `(p,)`: The white space after each piece, or an empty string."""
    rows: tf.Tensor
    """int32 `(p,)`: Index of the text that each piece belongs to."""

    def join(self, outputs: tf.Tensor, num_texts: tf.Tensor | int) -> tf.Tensor:
        """Join the outputs of the pieces, string `(p,)`, into one output per text, string `(num_texts,)`.

        If there was no space between two pieces, as after 。, one is put between their outputs, unless the
        first output ends in a script without spaces, such as Chinese.
        """
        is_wide = tf.strings.regex_full_match(outputs, _ENDS_WIDE)
        needs_space = (self.separators == "") & ~_is_last(self.rows) & ~is_wide
        parts = tf.strings.join([outputs, tf.where(needs_space, " ", self.separators)])
        return tf.strings.unsorted_segment_join(parts, self.rows, num_texts)


def split_texts(
    texts: tf.Tensor, tokenizer: Tokenizer, max_length: int, is_long: tf.Tensor | None = None
) -> TextPieces:
    r"""Split texts that exceed a length limit, at sentence ends and line breaks.

    A sentence that exceeds the limit is split between words, into as few pieces as possible. A word that
    exceeds the limit is not split.

    Args:
        texts: string `(b,)`, any bytes.
        tokenizer: Tokenizer that counts the tokens.
        max_length: Maximum number of tokens of a piece, including the end token.
        is_long: boolean `(b,)`: Which texts to split. Defaults to those that exceed the limit.

    Returns:
        The pieces. A text that is not split is one piece.

    Example:
        ```python
        pieces = kt.text.split_texts(tf.constant(["One. Two!\n\nThree, four."]), tokenizer, max_length=8)
        pieces.join(pieces.pieces, 1)  # the original text
        ```
    """
    if is_long is None:
        is_long = tokenizer.ended_ids(texts, max_length)[1]
    num_prefix = tokenizer.tokenize(tf.constant([""])).row_lengths()[0]  # of a language token, if any
    max_tokens = max_length - len(tokenizer.end_ids) - tf.cast(num_prefix, tf.int32)

    def count(texts: tf.Tensor) -> tf.Tensor:
        lengths = tokenizer.tokenize(tf.strings.substr(texts, 0, _MAX_BYTES)).row_lengths() - num_prefix
        return tf.where(tf.strings.length(texts) > _MAX_BYTES, _MAX_BYTES, tf.cast(lengths, tf.int32))

    sentences, ends = _split_at_marks(texts, is_long, _mark_sentences)
    rows = tf.cast(sentences.value_rowids(), tf.int32)
    is_longer = tf.gather(is_long, rows) & (count(sentences.flat_values) > max_tokens)
    words, spaces = _split_at_marks(sentences.flat_values, is_longer, _mark_words)
    # The separator after the last word of a sentence is that of the sentence.
    is_last = _is_last(words.value_rowids())
    after = tf.where(is_last, tf.gather(ends.flat_values, words.value_rowids()), spaces.flat_values)
    # White space may be a token. It counts before a word within a piece, not at the start of a piece.
    before = tf.concat([tf.constant([""]), tf.where(is_last, "", spaces.flat_values)], axis=0)[:-1]
    later = count(tf.strings.join([before, words.flat_values]))
    is_start = _pack_words(count(words.flat_values), later, words.row_splits, max_tokens)
    numbers = tf.cumsum(tf.cast(is_start, tf.int32))  # the piece of each word, from 1
    is_end = _is_last(numbers)
    parts = tf.strings.join([words.flat_values, tf.where(is_end, "", after)])
    rows = tf.gather(rows, words.value_rowids())
    return TextPieces(
        tf.strings.unsorted_segment_join(
            parts, numbers - 1, tf.reduce_max(tf.concat([numbers, [0]], axis=0))
        ),
        tf.boolean_mask(after, is_end),
        tf.boolean_mask(rows, is_end),
    )


def _is_last(numbers: tf.Tensor) -> tf.Tensor:
    """Return which of the ascending numbers `(n,)` are the last of their value, boolean `(n,)`."""
    return tf.concat([numbers[1:] != numbers[:-1], tf.ones_like(numbers[:1], tf.bool)], axis=0)


def _split_at_marks(
    texts: tf.Tensor, is_long: tf.Tensor, mark: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Split long texts at `_MARK` into pieces `(b, ragged)` and the separator after each piece."""
    escaped = tf.strings.regex_replace(texts, _ESCAPE, _ESCAPED)
    marked = tf.strings.join([tf.where(is_long, mark(escaped), escaped), _MARK])
    parts = tf.strings.split(marked, _MARK)  # piece, separator, ..., piece, ""
    pairs = tf.reshape(tf.strings.regex_replace(parts.flat_values, _ESCAPED, _ESCAPE), [-1, 2])
    pieces = tf.RaggedTensor.from_row_splits(pairs[:, 0], parts.row_splits // 2, validate=False)
    return pieces, pieces.with_flat_values(pairs[:, 1])


def _mark_sentences(texts: tf.Tensor) -> tf.Tensor:
    marked = tf.strings.regex_replace(texts, _SENTENCES, rf"\1\3{_MARK}\2\4\5{_MARK}")
    return tf.strings.regex_replace(marked, _WITHIN, r"\1\2")


def _mark_words(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_replace(texts, _WORDS, rf"\1{_MARK}\2\3{_MARK}")


def _pack_words(
    first: tf.Tensor, later: tf.Tensor, row_splits: tf.Tensor, max_tokens: tf.Tensor
) -> tf.Tensor:
    """Join words of a row into pieces of at most `max_tokens`; return which words begin a piece.

    `first` and `later` `(u,)` are the lengths of each word at the start of a piece and within one.
    """
    ends = tf.cumsum(later)  # (u,)
    num_words = tf.size(ends)
    # If a piece begins with this word, the next piece begins with ...
    first_after = tf.searchsorted(ends, ends - first + max_tokens + 1)
    row_ends = tf.cast(tf.repeat(row_splits[1:], row_splits[1:] - row_splits[:-1]), tf.int32)
    following = tf.clip_by_value(first_after, tf.range(num_words) + 1, row_ends)
    # Pointer doubling: jumps of 1, 2, 4, 8 pieces, since going piece by piece takes an iteration per piece.
    jumps = tf.concat([following, [num_words]], axis=0)  # (u + 1,), the last is the end
    is_start = tf.range(num_words + 1) == 0

    def go(is_start: tf.Tensor, jumps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        reached = tf.gather(jumps, tf.where(is_start))
        updates = tf.ones_like(reached[:, 0], tf.bool)
        return tf.tensor_scatter_nd_update(is_start, reached, updates), tf.gather(jumps, jumps)

    is_start, _ = tf.while_loop(lambda _, jumps: jumps[0] < num_words, go, [is_start, jumps])
    return is_start[:-1]
