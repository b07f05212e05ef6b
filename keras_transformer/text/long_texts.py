"""Long texts in pieces that a model can read: sentences, and the parts of a sentence that is too long.

All of it consists of operations of TensorFlow's core, so that an export splits texts too.
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
_CLOSING += r"(?:\p{Zs}[\x{BB}\x{203A}])?"  # of French, after a space
# The marks of Latin, Arabic, Urdu, Devanagari, Armenian, Ethiopic and Burmese scripts.
_MARKS = r"!?\x{2026}\x{203C}\x{2047}-\x{2049}\x{61F}\x{6D4}\x{964}\x{965}\x{589}\x{1362}\x{104B}"
# A point ends a sentence where white space follows, unlike in "3.5", and not after a letter, as in "z. B.".
_POINT = rf"[^{_SPACES}.][^{_SPACES}.]\."
_END = rf"(?:{_POINT}|[{_MARKS}])[.{_MARKS}]*{_CLOSING}"
# Those of Chinese and Japanese need no space.
_WIDE_END = rf"[\x{{3002}}\x{{FF01}}\x{{FF0E}}\x{{FF1F}}\x{{FF61}}]+{_CLOSING}"
_SENTENCES = rf"({_END})({_SPACE}+)|({_WIDE_END})({_SPACE}*)|({_SPACE}*{_LINE_BREAK}{_SPACE}*)"
_WORDS = rf"([\x{{3001}}\x{{FF0C}}\x{{FF1A}}\x{{FF1B}}\x{{FF64}}])({_SPACE}*)|({_SPACE}+)"

# A mark around each separator. A text may hold any character: its own are escaped.
_ESCAPE = "\x01"
_ESCAPED, _MARK = f"{_ESCAPE}a", f"{_ESCAPE}b"
# What goes on with a small letter is one sentence, as in "approx. five" and '"Why?" she asked'.
_WITHIN = rf"{_MARK}([\t\p{{Zs}}]+){_MARK}([{_QUOTES}\(\[\{{\x{{2013}}\x{{2014}}-]*\p{{Ll}})"

# The end of a text in a script without spaces; an empty text needs no space either.
_WIDE = r"[\p{Han}\p{Hiragana}\p{Katakana}\x{3000}-\x{303F}\x{FF00}-\x{FFEF}]"
_ENDS_WIDE = rf"(?s)(?:.*{_WIDE}{_CLOSING})?"
# No sentence of so many bytes is counted to its end: it is too long.
_MAX_BYTES = 2**16


class TextPieces(NamedTuple):
    """The pieces of texts; joined with their separators, those of a row are its text."""

    pieces: tf.Tensor
    """string `(p,)`: those of the first text, then those of the second, and so on; at least one of each."""
    separators: tf.Tensor
    """string `(p,)`: what follows each piece, white space or nothing."""
    rows: tf.Tensor
    """int32 `(p,)`: the text that each piece comes from, from 0."""

    def join(self, outputs: tf.Tensor, num_texts: tf.Tensor | int) -> tf.Tensor:
        """Join what became of each piece, string `(p,)`, to what becomes of each text, string `(num_texts,)`.

        A space is put between outputs whose pieces had none between them, as after 。, unless the script of
        the output has none either.
        """
        is_wide = tf.strings.regex_full_match(outputs, _ENDS_WIDE)
        needs_space = (self.separators == "") & ~_is_last(self.rows) & ~is_wide
        parts = tf.strings.join([outputs, tf.where(needs_space, " ", self.separators)])
        return tf.strings.unsorted_segment_join(parts, self.rows, num_texts)


def split_texts(
    texts: tf.Tensor, tokenizer: Tokenizer, max_length: int, is_long: tf.Tensor | None = None
) -> TextPieces:
    r"""Split texts that are longer than a limit at the ends of sentences and at line breaks.

    A sentence that is longer than the limit itself is split between words, into as few pieces as fit. A word
    that is longer than the limit stays as it is.

    Args:
        texts: string `(b,)`, any bytes.
        tokenizer: What counts tokens.
        max_length: Maximum number of tokens of a piece, the end token included.
        is_long: Which texts to split, boolean `(b,)`. Defaults to those that are longer than the limit.

    Returns:
        The pieces. A text that is not split is one piece.

    Example:
        ```python
        pieces = kt.text.split_texts(tf.constant(["One. Two!\n\nThree, four."]), tokenizer, max_length=8)
        pieces.join(pieces.pieces, 1)  # the text again
        ```
    """
    if is_long is None:
        is_long = tokenizer.ended_ids(texts, max_length)[1]
    no_text = tokenizer.tokenize(tf.constant([""])).row_lengths()[0]  # a language in front, or none
    room = max_length - len(tokenizer.end_ids) - tf.cast(no_text, tf.int32)

    def count(texts: tf.Tensor) -> tf.Tensor:
        lengths = tokenizer.tokenize(tf.strings.substr(texts, 0, _MAX_BYTES)).row_lengths() - no_text
        return tf.where(tf.strings.length(texts) > _MAX_BYTES, _MAX_BYTES, tf.cast(lengths, tf.int32))

    sentences, ends = _split(texts, is_long, _mark_sentences)
    rows = tf.cast(sentences.value_rowids(), tf.int32)
    is_longer = tf.gather(is_long, rows) & (count(sentences.flat_values) > room)
    words, spaces = _split(sentences.flat_values, is_longer, _mark_words)
    # What follows the last word of a sentence is what follows the sentence.
    is_last = _is_last(words.value_rowids())
    after = tf.where(is_last, tf.gather(ends.flat_values, words.value_rowids()), spaces.flat_values)
    # White space may be a token: that in front of a word counts, but in front of a piece.
    before = tf.concat([tf.constant([""]), tf.where(is_last, "", spaces.flat_values)], axis=0)[:-1]
    later = count(tf.strings.join([before, words.flat_values]))
    is_start = _pack(count(words.flat_values), later, words.row_splits, room)
    numbers = tf.cumsum(tf.cast(is_start, tf.int32))  # of the piece of each word, from 1
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
    """Return which of ascending numbers is followed by another one, or by none."""
    return tf.concat([numbers[1:] != numbers[:-1], tf.ones_like(numbers[:1], tf.bool)], axis=0)


def _split(
    texts: tf.Tensor, is_long: tf.Tensor, mark: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Split long texts at marks: pieces `(b, ragged)`, and what follows each, nothing after the last."""
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


def _pack(first: tf.Tensor, later: tf.Tensor, row_splits: tf.Tensor, room: tf.Tensor) -> tf.Tensor:
    """Put as many neighbors of a row together as fit; return which words begin a piece, boolean `(u,)`.

    The lengths are those of each word as the first of a piece and as a later one.
    """
    ends = tf.cumsum(later)  # (u,)
    num_words = tf.size(ends)
    # The first word that no longer fits behind each one, in the same row.
    first_after = tf.searchsorted(ends, ends - first + room + 1)
    row_ends = tf.cast(tf.repeat(row_splits[1:], row_splits[1:] - row_splits[:-1]), tf.int32)
    following = tf.clip_by_value(first_after, tf.range(num_words) + 1, row_ends)
    # From the first word by 1, 2, 4, 8 pieces at once: a walk from piece to piece takes a round for each.
    jumps = tf.concat([following, [num_words]], axis=0)  # (u + 1,), the last stands for the end
    is_start = tf.range(num_words + 1) == 0

    def go(is_start: tf.Tensor, jumps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        reached = tf.gather(jumps, tf.where(is_start))
        updates = tf.ones_like(reached[:, 0], tf.bool)
        return tf.tensor_scatter_nd_update(is_start, reached, updates), tf.gather(jumps, jumps)

    is_start, _ = tf.while_loop(lambda _, jumps: jumps[0] < num_words, go, [is_start, jumps])
    return is_start[:-1]
