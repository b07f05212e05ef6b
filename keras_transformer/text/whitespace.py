"""One token per word between white space."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import tensorflow as tf

from keras_transformer.text.lookup_tokenizer import LookupTokenizer, is_usable
from keras_transformer.text.normalization import normalize, single_spaces
from keras_transformer.text.vocabulary_training import train_vocabulary


class WhitespaceTokenizer(LookupTokenizer):
    """Splits texts at Unicode white space; TensorFlow core operations only.

    Fit for text that is a list of symbols already, such as the phones of CMUdict
    (`"AA B ER G"`). Joining puts one space between words.

    Args:
        vocabulary: the words after the special tokens, in the order of their ids.
        lowercase: whether texts are lower-cased before they are split.

    Raises:
        ValueError: the vocabulary is empty, or an entry repeats or holds white space.
        TypeError: an entry is no string.

    Example:
        >>> tokenizer = WhitespaceTokenizer(["AA", "B", "ER", "G"])
        >>> tokenizer.tokenize(["AA B X"]).to_list()
        [[4, 5, 1]]
    """

    kind: ClassVar[str] = "whitespace"
    separator: ClassVar[str] = " "

    def __init__(self, vocabulary: Sequence[str], *, lowercase: bool = False) -> None:
        for piece in vocabulary:
            if isinstance(piece, str) and piece.split() != [piece]:
                raise ValueError(f"`vocabulary` must hold single words. Received: {piece!r}.")
        super().__init__(vocabulary, lowercase=lowercase)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        lowercase: bool = False,
        max_vocabulary_size: int | None = None,
    ) -> "WhitespaceTokenizer":
        """Builds a tokenizer from the words of a corpus.

        Args:
            texts: the corpus.
            lowercase: as in the constructor.
            max_vocabulary_size: the most token ids, special ones included; all if None.

        Returns:
            a tokenizer; the most frequent words have the lowest ids.

        Raises:
            ValueError: `max_vocabulary_size` has no room for a word.
            InputError: the corpus holds no word.
        """

        def _split(batch: tf.Tensor) -> tf.RaggedTensor:
            return _words(normalize(batch, lowercase=lowercase))

        vocabulary = train_vocabulary(texts, _split, is_usable, max_vocabulary_size)
        return cls(vocabulary, lowercase=lowercase)

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return _words(texts)


def _words(texts: tf.Tensor) -> tf.RaggedTensor:
    return tf.strings.split(single_spaces(texts))
