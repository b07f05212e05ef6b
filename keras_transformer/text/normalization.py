"""String normalization in core TensorFlow operations, from string (b,) to string (b,).

The functions run in a `tf.function` and accept any bytes; each row is independent of the others.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping

import tensorflow as tf

from keras_transformer._arguments import check_flags, check_kind

# Replaces bytes that are not UTF-8; a vocabulary must not contain it.
REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"

# Unicode white space: ASCII white space, NEXT LINE and the separator categories.
_WHITE_SPACE = r"[\s\v\x{1C}-\x{1F}\x{85}\p{Z}]+"

# Capitals whose lower case depends on the locale (Turkish, Azeri, Lithuanian). `tf.strings.lower` uses the
# locale of the process, so an export would give different results on a Turkish server. These are replaced
# first.
_LOCALE_DEPENDENT_CAPITALS = {
    "I": "i",
    "J": "j",
    "Ì": "ì",
    "Í": "í",
    "Ĩ": "ĩ",
    "Į": "į",
    "İ": "i\N{COMBINING DOT ABOVE}",
}

_TEXTS_PER_BATCH = 1024


def _normalize(texts: tf.Tensor, *, lowercase: bool) -> tf.Tensor:
    """Replace invalid UTF-8 and NUL by U+FFFD, and lower-case if requested, string (b,)."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    # NUL too, because `tf.strings.lower` cuts a string at its first NUL.
    texts = tf.strings.regex_replace(texts, r"\x00", REPLACEMENT_CHARACTER)
    return _lower(texts) if lowercase else texts


def _lower(texts: tf.Tensor) -> tf.Tensor:
    """Lower-case valid UTF-8 without NUL by Unicode's rules, in any locale, string (b,)."""
    for capital, small in _LOCALE_DEPENDENT_CAPITALS.items():
        texts = tf.strings.regex_replace(texts, capital, small)
    return tf.strings.lower(texts, encoding="utf-8")


def _single_spaces(texts: tf.Tensor) -> tf.Tensor:
    """Reduce each run of white space to one space and strip both ends, string (b,)."""
    return tf.strings.strip(tf.strings.regex_replace(texts, _WHITE_SPACE, " "))


def _as_utf8(text: str | bytes) -> bytes:
    """Encode a text. Lone surrogates, which JSON allows, become bytes that `_normalize` replaces."""
    check_kind(str, bytes, text=text)
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _normalized_batches(texts: Iterable[str], *, lowercase: bool) -> Iterator[tf.Tensor]:
    """Yield the normalized texts of a corpus in batches, string (b,) each."""
    # A string is iterable, but its characters are not texts.
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        raise TypeError(f"`texts` must be several strings. Received: {texts!r:.60}.")
    check_flags(lowercase=lowercase)
    rows = map(_as_utf8, texts)
    while batch := list(itertools.islice(rows, _TEXTS_PER_BATCH)):
        yield _normalize(tf.constant(batch, tf.string), lowercase=lowercase)
