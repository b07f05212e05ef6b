"""Composed letters in place of letters with combining characters, in core TensorFlow operations."""

import itertools
import unicodedata
from collections.abc import Iterable

import tensorflow as tf

_SHIFT = 2**21  # above every code point


class _Composer(tf.Module):
    """Composes letters as Unicode's normal form NFC, if a vocabulary has them in this form only.

    Some systems write `é` as `e` and a combining character. A vocabulary of texts with `é` does not have it,
    and it would become an unknown token. A vocabulary that has it reads it as it is.
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        super().__init__()
        letters = {letter for piece in pieces for letter in piece}
        composed: dict[tuple[str, str], str] = {}
        self._num_passes = 0
        for letter in letters:
            base, *marks = list(unicodedata.normalize("NFD", letter))
            if not letters.isdisjoint(marks):
                continue
            # Texts may have them in another order, or the letter composed with one of them.
            for order in itertools.permutations(marks):
                steps = [
                    unicodedata.normalize("NFC", base + "".join(order[:n])) for n in range(len(marks) + 1)
                ]
                # Unicode has letters that NFC does not compose.
                if steps[-1] == letter and max(map(len, steps)) == 1:
                    composed |= dict(zip(zip(steps, order, strict=False), steps[1:], strict=True))
                    self._num_passes = max(self._num_passes, len(marks))
        if composed:
            codes = sorted({ord(mark) for _, mark in composed})
            self._with_mark = "(?s).*[" + "".join(rf"\x{{{code:x}}}" for code in codes) + "].*"
            keys = [ord(first) * _SHIFT + ord(mark) for first, mark in composed]
            entries = tf.lookup.KeyValueTensorInitializer(
                tf.constant(keys, tf.int64), tf.constant([*map(ord, composed.values())], tf.int32)
            )
            self._table = tf.lookup.StaticHashTable(entries, default_value=-1)

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Compose the letters of valid UTF-8, string (b,)."""
        if not self._num_passes:
            return texts
        has_marks = tf.reduce_any(tf.strings.regex_full_match(texts, self._with_mark))
        return tf.cond(has_marks, lambda: self._compose(texts), lambda: tf.identity(texts))

    def _compose(self, texts: tf.Tensor) -> tf.Tensor:
        letters = tf.strings.unicode_decode(texts, "UTF-8")  # code points (b, ragged)
        for _ in range(self._num_passes):  # one combining character each
            flat, rows = letters.flat_values, letters.value_rowids()
            following = tf.concat([flat[1:], [0]], axis=0)
            is_same_row = tf.concat([tf.equal(rows[1:], rows[:-1]), [False]], axis=0)
            found = self._table.lookup(tf.cast(flat, tf.int64) * _SHIFT + tf.cast(following, tf.int64))
            is_found = is_same_row & (found >= 0)
            is_kept = tf.concat([[True], ~is_found[:-1]], axis=0)
            flat = tf.where(is_found, found, flat)
            letters = tf.ragged.boolean_mask(
                letters.with_flat_values(flat), letters.with_flat_values(is_kept)
            )
        return tf.strings.unicode_encode(letters, "UTF-8")
