"""String normalizations in TensorFlow core operations, all of shape (b,) to (b,).

They trace in a `tf.function`, accept every byte string and treat each row alone.
"""

import tensorflow as tf

# Stands for bytes that are no UTF-8, and therefore never is in a vocabulary.
REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}"

# Unicode white space: that of ASCII, NEXT LINE, and the separator categories.
_WHITE_SPACE = r"[\s\v\x{1C}-\x{1F}\x{85}\p{Z}]+"

# The capitals whose small letter depends on the language of the process (Turkish,
# Azeri, Lithuanian). `tf.strings.lower` asks the environment, so the same export
# would answer differently on a Turkish server; these are replaced before it runs.
_LOCALE_DEPENDENT_CAPITALS = {
    "I": "i",
    "J": "j",
    "Ì": "ì",
    "Í": "í",
    "Ĩ": "ĩ",
    "Į": "į",
    "İ": "i\N{COMBINING DOT ABOVE}",
}


def normalize(texts: tf.Tensor, *, lowercase: bool) -> tf.Tensor:
    """Prepares texts for splitting; what every tokenizer and its training do first.

    Args:
        texts: string (b,), any bytes.
        lowercase: whether to lower-case.

    Returns:
        string (b,), valid UTF-8 without NUL.
    """
    texts = valid_utf8(texts)
    return lower(texts) if lowercase else texts


def valid_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Replaces everything that is not clean UTF-8 by U+FFFD.

    NUL is replaced too, because `tf.strings.lower` cuts a string at its first NUL.

    Args:
        texts: string (b,), any bytes.

    Returns:
        string (b,), valid UTF-8 without NUL.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    return tf.strings.regex_replace(texts, r"\x00", REPLACEMENT_CHARACTER)


def lower(texts: tf.Tensor) -> tf.Tensor:
    """Lower-cases by Unicode's rules, the same in every locale.

    Args:
        texts: string (b,), valid UTF-8 without NUL.

    Returns:
        string (b,).
    """
    for capital, small in _LOCALE_DEPENDENT_CAPITALS.items():
        texts = tf.strings.regex_replace(texts, capital, small)
    return tf.strings.lower(texts, encoding="utf-8")


def single_spaces(texts: tf.Tensor) -> tf.Tensor:
    """Makes each run of white space one space and strips both ends.

    Args:
        texts: string (b,), valid UTF-8.

    Returns:
        string (b,).
    """
    return tf.strings.strip(tf.strings.regex_replace(texts, _WHITE_SPACE, " "))
