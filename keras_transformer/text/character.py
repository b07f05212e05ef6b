"""One token per Unicode character."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import tensorflow as tf

from keras_transformer.text.lookup_tokenizer import LookupTokenizer, is_usable
from keras_transformer.text.normalization import normalize, single_spaces
from keras_transformer.text.vocabulary_training import train_vocabulary


class CharacterTokenizer(LookupTokenizer):
    """Splits texts into Unicode code points; TensorFlow core operations only.

    Fit for short strings in small alphabets: dates, spellings, names. A letter and a
    combining mark that stand apart in the text are two tokens.

    Args:
        vocabulary: the characters after the special tokens, in the order of their ids.
        lowercase: whether texts are lower-cased before they are split.
        normalize_spaces: whether runs of white space become one space and white space
            at both ends is left out.

    Raises:
        ValueError: the vocabulary is empty, or an entry repeats or is not one character.
        TypeError: an entry is no string.

    Example:
        >>> tokenizer = CharacterTokenizer.train(["abc", "ab"])
        >>> tokenizer.tokenize(["cab!"]).to_list()
        [[6, 4, 5, 1]]
    """

    kind: ClassVar[str] = "character"
    option_names: ClassVar[tuple[str, ...]] = ("lowercase", "normalize_spaces")
    separator: ClassVar[str] = ""

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        lowercase: bool = False,
        normalize_spaces: bool = False,
    ) -> None:
        for piece in vocabulary:
            if isinstance(piece, str) and len(piece) > 1:
                raise ValueError(f"`vocabulary` must hold single characters. Received: {piece!r}.")
        super().__init__(vocabulary, lowercase=lowercase)
        self.normalize_spaces = normalize_spaces

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        lowercase: bool = False,
        normalize_spaces: bool = False,
        max_vocabulary_size: int | None = None,
    ) -> "CharacterTokenizer":
        """Builds a tokenizer from the characters of a corpus.

        Args:
            texts: the corpus.
            lowercase: as in the constructor.
            normalize_spaces: as in the constructor.
            max_vocabulary_size: the most token ids, special ones included; all if None.

        Returns:
            a tokenizer; the most frequent characters have the lowest ids.

        Raises:
            ValueError: `max_vocabulary_size` has no room for a character.
            InputError: the corpus holds no character.
        """

        def _split(batch: tf.Tensor) -> tf.RaggedTensor:
            return _characters(normalize(batch, lowercase=lowercase), normalize_spaces)

        vocabulary = train_vocabulary(texts, _split, is_usable, max_vocabulary_size)
        return cls(vocabulary, lowercase=lowercase, normalize_spaces=normalize_spaces)

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return _characters(texts, self.normalize_spaces)


def _characters(texts: tf.Tensor, normalize_spaces: bool) -> tf.RaggedTensor:
    texts = single_spaces(texts) if normalize_spaces else texts
    return tf.strings.unicode_split(texts, "UTF-8")
