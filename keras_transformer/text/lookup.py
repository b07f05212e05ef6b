"""Tokenizers that look each piece up in a table: characters and words."""

import abc
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import ClassVar, Self

import tensorflow as tf

from keras_transformer._arguments import check_flags, check_kind
from keras_transformer.errors import InputError
from keras_transformer.text.normalization import (
    REPLACEMENT_CHARACTER,
    _normalize,
    _normalized_batches,
    _single_spaces,
)
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS


class _LookupTokenizer(Tokenizer):
    """A tokenizer with a table of pieces, of TensorFlow core operations only."""

    vocabulary_file: ClassVar[str] = "vocabulary.txt"
    separator: ClassVar[str]

    def __init__(self, vocabulary: Sequence[str], *, lowercase: bool = False) -> None:
        check_flags(lowercase=lowercase)
        _check_vocabulary(vocabulary, lowercase)
        super().__init__((*SPECIAL_TOKENS, *vocabulary), lowercase=lowercase)
        ids = tf.range(len(SPECIAL_TOKENS), self.vocabulary_size, dtype=tf.int32)
        entries = tf.lookup.KeyValueTensorInitializer(self._pieces[len(SPECIAL_TOKENS) :], ids)
        self._table = tf.lookup.StaticHashTable(entries, default_value=SPECIAL_IDS.unknown)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The pieces after the special tokens, in the order of their ids."""
        return tuple(piece.decode() for piece in self._pieces.numpy()[len(SPECIAL_TOKENS) :])

    @abc.abstractmethod
    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Split normalized texts, string (b,), into pieces, string (b, ragged)."""

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        pieces = self._split(texts)  # (b, ragged)
        return pieces.with_flat_values(self._table.lookup(pieces.flat_values))

    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        pieces = tf.gather(self._pieces, token_ids)  # (b, ragged)
        return tf.strings.reduce_join(pieces, axis=-1, separator=self.separator)

    def _vocabulary_bytes(self) -> bytes:
        return _lines((*SPECIAL_TOKENS, *self.vocabulary))

    @classmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        # Not `splitlines`, which also breaks at characters that may be entries.
        entries: list[str] = []
        for number, line in enumerate(vocabulary.removesuffix(b"\n").split(b"\n"), 1):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):  # not JSON, not UTF-8, or a thousand brackets
                entry = None
            if not isinstance(entry, str):
                shown = line[:60].decode(errors="backslashreplace")
                raise ValueError(f"Line {number} must be a JSON string. Received: {shown!r}.")
            entries.append(entry)
        first = tuple(entries[: len(SPECIAL_TOKENS)])
        if first != SPECIAL_TOKENS:
            raise ValueError(f"It must start with {SPECIAL_TOKENS}. Received: {first}.")
        return cls(entries[len(SPECIAL_TOKENS) :], **options)


class CharacterTokenizer(_LookupTokenizer):
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
        TypeError: an entry is not a string.

    Example:
        >>> tokenizer = CharacterTokenizer.train(["abc", "ab"])
        >>> tokenizer.tokenize(["cab!"]).to_list()
        [[6, 4, 5, 1]]
    """

    kind: ClassVar[str] = "character"
    option_names: ClassVar[tuple[str, ...]] = ("lowercase", "normalize_spaces")
    separator: ClassVar[str] = ""

    def __init__(
        self, vocabulary: Sequence[str], *, lowercase: bool = False, normalize_spaces: bool = False
    ) -> None:
        check_flags(normalize_spaces=normalize_spaces)
        check_kind(Sequence, vocabulary=vocabulary)
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
    ) -> Self:
        """Build a tokenizer from the characters of a corpus.

        Args:
            texts: the corpus.
            lowercase: as in the constructor.
            normalize_spaces: as in the constructor.
            max_vocabulary_size: the most token ids, special ones included; all if None.

        Returns:
            A tokenizer; the most frequent characters have the lowest ids.

        Raises:
            ValueError: `max_vocabulary_size` has no room for a character.
            InputError: the corpus holds no character.
        """
        check_flags(lowercase=lowercase, normalize_spaces=normalize_spaces)
        batches = _normalized_batches(texts, lowercase=lowercase)
        pieces = (_characters(batch, normalize_spaces) for batch in batches)
        vocabulary = _most_frequent(pieces, max_vocabulary_size)
        return cls(vocabulary, lowercase=lowercase, normalize_spaces=normalize_spaces)

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return _characters(texts, self.normalize_spaces)


class WhitespaceTokenizer(_LookupTokenizer):
    """Splits texts at Unicode white space; TensorFlow core operations only.

    Fit for text that is a list of symbols already, such as the phones of CMUdict
    (`"AA B ER G"`). Joining puts one space between words.

    Args:
        vocabulary: the words after the special tokens, in the order of their ids.
        lowercase: whether texts are lower-cased before they are split.

    Raises:
        ValueError: the vocabulary is empty, or an entry repeats or holds white space.
        TypeError: an entry is not a string.

    Example:
        >>> tokenizer = WhitespaceTokenizer(["AA", "B", "ER", "G"])
        >>> tokenizer.tokenize(["AA B X"]).to_list()
        [[4, 5, 1]]
    """

    kind: ClassVar[str] = "whitespace"
    separator: ClassVar[str] = " "

    def __init__(self, vocabulary: Sequence[str], *, lowercase: bool = False) -> None:
        check_kind(Sequence, vocabulary=vocabulary)
        for piece in vocabulary:
            if isinstance(piece, str) and piece.split() != [piece]:
                raise ValueError(f"`vocabulary` must hold single words. Received: {piece!r}.")
        super().__init__(vocabulary, lowercase=lowercase)

    @classmethod
    def train(
        cls, texts: Iterable[str], *, lowercase: bool = False, max_vocabulary_size: int | None = None
    ) -> Self:
        """Build a tokenizer from the words of a corpus.

        Args:
            texts: the corpus.
            lowercase: as in the constructor.
            max_vocabulary_size: the most token ids, special ones included; all if None.

        Returns:
            A tokenizer; the most frequent words have the lowest ids.

        Raises:
            ValueError: `max_vocabulary_size` has no room for a word.
            InputError: the corpus holds no word.
        """
        pieces = map(_words, _normalized_batches(texts, lowercase=lowercase))
        return cls(_most_frequent(pieces, max_vocabulary_size), lowercase=lowercase)

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return _words(texts)


def _lines(entries: Iterable[str]) -> bytes:
    # A piece may be a line break or a quotation mark, so each line is a JSON string.
    return "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries).encode()


def _characters(texts: tf.Tensor, normalize_spaces: bool) -> tf.RaggedTensor:
    texts = _single_spaces(texts) if normalize_spaces else texts
    return tf.strings.unicode_split(texts, "UTF-8")


def _words(texts: tf.Tensor) -> tf.RaggedTensor:
    return tf.strings.split(_single_spaces(texts))


def _most_frequent(batches: Iterable[tf.RaggedTensor], max_vocabulary_size: int | None) -> list[str]:
    """Return the pieces of a corpus, most frequent first, equally frequent ones in code point order."""
    if max_vocabulary_size is not None:
        check_kind(Integral, max_vocabulary_size=max_vocabulary_size)
    if max_vocabulary_size is not None and max_vocabulary_size <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"`max_vocabulary_size` must exceed the {len(SPECIAL_TOKENS)} special tokens. "
            f"Received: max_vocabulary_size={max_vocabulary_size}."
        )
    counts: Counter[bytes] = Counter()
    for batch in batches:
        counts.update(batch.flat_values.numpy().tolist())
    pieces = {piece.decode(): count for piece, count in counts.items() if _is_usable(piece.decode())}
    if not pieces:
        raise InputError("Cannot train a vocabulary: the corpus holds no text. Received: 0 pieces.")
    ranked = sorted(pieces, key=lambda piece: (-pieces[piece], piece))
    return ranked[: None if max_vocabulary_size is None else max_vocabulary_size - len(SPECIAL_TOKENS)]


def _check_vocabulary(vocabulary: Sequence[str], lowercase: bool) -> None:
    """Raise if a piece is not a string, can never be in a text of this case, or repeats."""
    seen: set[str] = set()
    for piece in vocabulary:
        if not isinstance(piece, str):
            raise TypeError(f"`vocabulary` must hold strings. Received: {piece!r}.")
        if not _is_usable(piece):
            raise ValueError(f"`vocabulary` must hold pieces that a text can have. Received: {piece!r}.")
        if piece in seen:
            raise ValueError(f"`vocabulary` must not repeat a piece. Received: {piece!r} twice.")
        seen.add(piece)
    if not seen:
        raise ValueError(f"`vocabulary` must not be empty. Received: {vocabulary!r}.")
    lowered = _normalize(list(vocabulary), lowercase=lowercase).numpy()
    for piece, text in zip(vocabulary, lowered, strict=True):
        if piece.encode() != text:
            raise ValueError(f"`vocabulary` must be lower case with `lowercase`. Received: {piece!r}.")


def _is_usable(piece: str) -> bool:
    """Return False for nothing, names of special tokens, and NUL, U+FFFD and surrogates."""
    forbidden = any(c in "\0" + REPLACEMENT_CHARACTER or "\ud800" <= c <= "\udfff" for c in piece)
    return bool(piece) and piece not in SPECIAL_TOKENS and not forbidden
