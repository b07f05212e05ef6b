"""Byte-pair encoding of bytes, as in GPT-2."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import tensorflow as tf

from keras_transformer.text.adapted_tokenizer import AdaptedTokenizer
from keras_transformer.text.normalization import REPLACEMENT_CHARACTER

# RE2's `\s` matches only ASCII white space. `_WORDS` is GPT-2's word pattern, split at `_MARK`.
_SPACES = r"\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
_MARK = "\U0010ffff"
_WORDS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+"
    rf"| ?[^{_SPACES}\p{{L}}\p{{N}}{_MARK}]+|[{_SPACES}]+|{_MARK}"
)
_NO_RANK = 2**31 - 1


class BytePairTokenizer(AdaptedTokenizer):
    """Byte-pair encoding of bytes, as in GPT-2 and the package `tokenizers`."""

    kind: ClassVar[str] = "byte_pairs"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Spec(AdaptedTokenizer.Spec):
        """Vocabulary and merges of a byte-pair tokenizer."""

        merges: tuple[str, ...]
        """Merges: two pieces separated by a space, in order of priority."""
        add_prefix_space: bool = False
        """Whether to put a space before a text that does not begin with one."""

    spec: Spec

    @staticmethod
    def byte_letters() -> list[str]:
        """Return the printable character that represents each byte in the pieces (256 characters)."""
        visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
        others = [code for code in range(256) if code not in visible]
        return [chr(code if code in visible else 256 + others.index(code)) for code in range(256)]

    def create_resources(self) -> None:
        """Create the tables of merge ranks, merged ids and bytes."""
        pieces, letters = self.spec.pieces, self.byte_letters()
        numbers = {piece: number for number, piece in enumerate(pieces)}
        # Small vocabularies lack some bytes, and the results of some merges.
        unknown, self._base = len(pieces), len(pieces) + 1
        self._byte_ids = tf.constant([numbers.get(letter, unknown) for letter in letters], tf.int32)
        pairs = [merge.split(" ") for merge in self.spec.merges]
        pairs = [[left, right] for left, right in pairs if {left, right, left + right} <= numbers.keys()]
        keys = [numbers[left] * self._base + numbers[right] for left, right in pairs]
        # A repeated pair keeps its first rank.
        ranks = {key: rank for rank, key in reversed([*enumerate(keys)])} or {-1: 0}
        entries = tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(ranks), tf.int64), tf.constant(list(ranks.values()), tf.int32)
        )
        self._ranks = tf.lookup.StaticHashTable(entries, _NO_RANK)
        self._merged = tf.constant([numbers[left + right] for left, right in pairs] or [0], tf.int32)
        codes = {letter: code for code, letter in enumerate(letters)}
        # Added tokens are plain text; all other pieces are written in byte letters.
        as_text = {*self.spec.split_tokens}
        contents = [
            piece.encode()
            if piece in as_text
            else bytes(codes[letter] for letter in piece if letter in codes)
            for piece in pieces
        ]
        self._contents = tf.constant(contents, tf.string)

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Split texts into words by GPT-2's pattern, then merge the bytes of each word."""
        # Rejected: KerasHub's layer. AutoGraph cannot trace it on Python 3.13, and it splits rare digits and
        # spaces differently.
        from tensorflow_text import regex_split

        if self.spec.add_prefix_space:
            starts = tf.strings.regex_full_match(texts, "(?s)|[ ].*")
            texts = tf.where(starts, texts, tf.strings.join([" ", texts]))
        # Only the last space before a word may be joined to it. RE2 has no lookahead, so a Unicode
        # noncharacter is inserted as a separator.
        texts = tf.strings.regex_replace(texts, _MARK, REPLACEMENT_CHARACTER)
        ends = f"([{_SPACES}]+)([{_SPACES}])([^{_SPACES}])"
        words = regex_split(tf.strings.regex_replace(texts, ends, rf"\1{_MARK}\2\3"), _WORDS, f"[^{_MARK}]+")
        characters = tf.strings.bytes_split(words.flat_values)
        bytes_ = tf.cast(tf.reshape(tf.io.decode_raw(characters.flat_values, tf.uint8), [-1]), tf.int32)
        numbers_of_words = tf.cast(characters.value_rowids(), tf.int32)
        ids, rows = _merge_pairs(
            tf.gather(self._byte_ids, bytes_), numbers_of_words, self._rank, self._merged
        )
        by_word = tf.RaggedTensor.from_value_rowids(ids, tf.cast(rows, tf.int64), characters.nrows())
        return words.with_flat_values(by_word).merge_dims(1, 2)

    def _rank(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return self._ranks.lookup(tf.cast(left, tf.int64) * self._base + tf.cast(right, tf.int64))

    def join(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        """Join the bytes of the pieces."""
        return tf.strings.reduce_join(tf.gather(self._contents, token_ids), axis=-1)


def _merge_pairs(
    ids: tf.Tensor, rows: tf.Tensor, ranked: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], merged: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Merge neighboring ids (n,) with the same row number (n,), the lowest rank first."""

    def ranks_of(ids: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.where(rows[:-1] == rows[1:], ranked(ids[:-1], ids[1:]), _NO_RANK)

    def merge(ids: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        ranks = ranks_of(ids, rows)
        least = tf.math.unsorted_segment_min(ranks, rows[:-1], tf.reduce_max(rows) + 1)
        found = (ranks == tf.gather(least, rows[:-1])) & (ranks < _NO_RANK)
        # If pairs overlap, as in "aaa", merge every second one.
        index = tf.range(tf.size(found))
        is_first = found & ~tf.concat([[False], found[:-1]], axis=0)
        firsts = tf.concat([[0], tf.boolean_mask(index, is_first)], axis=0)
        found &= (index - tf.gather(firsts, tf.cumsum(tf.cast(is_first, tf.int32)))) % 2 == 0
        pairs = tf.where(found, tf.gather(merged, tf.where(found, ranks, 0)), ids[:-1])
        is_left = ~tf.concat([[False], found], axis=0)
        return tf.boolean_mask(tf.concat([pairs, ids[-1:]], axis=0), is_left), tf.boolean_mask(rows, is_left)

    shapes = (tf.TensorShape([None]), tf.TensorShape([None]))
    found: tuple[tf.Tensor, tf.Tensor] = tf.while_loop(
        lambda ids, rows: tf.reduce_any(ranks_of(ids, rows) < _NO_RANK), merge, (ids, rows), shapes
    )
    return found
