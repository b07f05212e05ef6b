"""Tokenizers with a lookup table: characters and words."""

import abc
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import ClassVar, Self

import tensorflow as tf

from keras_transformer._arguments import check_flags, check_kind
from keras_transformer.errors import InputError
from keras_transformer.text.composition import _Composer
from keras_transformer.text.normalization import (
    REPLACEMENT_CHARACTER,
    _normalize,
    _normalized_batches,
    _single_spaces,
)
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS


class _LookupTokenizer(Tokenizer):
    """A tokenizer with a lookup table, made of core TensorFlow operations."""

    vocabulary_file: ClassVar[str] = "vocabulary.txt"
    separator: ClassVar[str]

    def __init__(self, vocabulary: Sequence[str], *, lowercase: bool = False) -> None:
        check_flags(lowercase=lowercase)
        _check_vocabulary(vocabulary, lowercase)
        super().__init__((*SPECIAL_TOKENS, *vocabulary), lowercase=lowercase)
        ids = tf.range(len(SPECIAL_TOKENS), self.vocabulary_size, dtype=tf.int32)
        entries = tf.lookup.KeyValueTensorInitializer(self._pieces[len(SPECIAL_TOKENS) :], ids)
        self._table = tf.lookup.StaticHashTable(entries, default_value=SPECIAL_IDS.unknown)
        self._compose = _Composer(vocabulary)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The pieces after the special tokens, in the order of their ids."""
        return tuple(piece.decode() for piece in self._pieces.numpy()[len(SPECIAL_TOKENS) :])

    @abc.abstractmethod
    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Split normalized texts, string (b,), into pieces, string (b, ragged)."""

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        pieces = self._split(self._compose(texts))  # (b, ragged)
        return pieces.with_flat_values(self._table.lookup(pieces.flat_values))

    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        pieces = tf.gather(self._pieces, token_ids)  # (b, ragged)
        return tf.strings.reduce_join(pieces, axis=-1, separator=self.separator)

    def _vocabulary_bytes(self) -> bytes:
        return _lines((*SPECIAL_TOKENS, *self.vocabulary))

    @classmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        # Not `splitlines`, which also splits at characters that may be entries.
        entries: list[str] = []
        for number, line in enumerate(vocabulary.removesuffix(b"\n").split(b"\n"), 1):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
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
    """Character tokenizer: one token per Unicode code point.

    Use it for short strings with a small alphabet: dates, spellings, names. A letter and a combining
    character are two tokens if the vocabulary has the combining character; else they are composed, as by
    Unicode's form NFC. Needs only core TensorFlow operations.

    Args:
        vocabulary: Characters after the special tokens, in the order of their ids.
        lowercase: Whether to lower-case texts first.
        normalize_spaces: Whether to reduce each run of white space to one space and strip both ends.

    Raises:
        TypeError: If an entry is not a string.
        ValueError: If the vocabulary is empty, or an entry is repeated or not a single character.

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
            texts: The corpus.
            lowercase: As for the constructor.
            normalize_spaces: As for the constructor.
            max_vocabulary_size: Maximum number of token ids, including the special tokens. Defaults to no
                limit.

        Returns:
            A tokenizer. The most frequent characters have the lowest ids.

        Raises:
            InputError: If the corpus has no characters.
            ValueError: If `max_vocabulary_size` does not exceed the number of special tokens.
        """
        check_flags(lowercase=lowercase, normalize_spaces=normalize_spaces)
        batches = _normalized_batches(texts, lowercase=lowercase)
        pieces = (_characters(batch, normalize_spaces) for batch in batches)
        vocabulary = _most_frequent(pieces, max_vocabulary_size)
        return cls(vocabulary, lowercase=lowercase, normalize_spaces=normalize_spaces)

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return _characters(texts, self.normalize_spaces)


class WhitespaceTokenizer(_LookupTokenizer):
    """Word tokenizer that splits texts at Unicode white space.

    Use it for texts that are sequences of symbols, such as the phonemes of CMUdict (`"AA B ER G"`).
    `detokenize` puts one space between words. Letters and combining characters are composed as by
    `CharacterTokenizer`. Needs only core TensorFlow operations.

    Args:
        vocabulary: Words after the special tokens, in the order of their ids.
        lowercase: Whether to lower-case texts first.

    Raises:
        TypeError: If an entry is not a string.
        ValueError: If the vocabulary is empty, or an entry is repeated or contains white space.

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
            texts: The corpus.
            lowercase: As for the constructor.
            max_vocabulary_size: Maximum number of token ids, including the special tokens. Defaults to no
                limit.

        Returns:
            A tokenizer. The most frequent words have the lowest ids.

        Raises:
            InputError: If the corpus has no words.
            ValueError: If `max_vocabulary_size` does not exceed the number of special tokens.
        """
        pieces = map(_words, _normalized_batches(texts, lowercase=lowercase))
        return cls(_most_frequent(pieces, max_vocabulary_size), lowercase=lowercase)

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return _words(texts)


def _lines(entries: Iterable[str]) -> bytes:
    # Each line is a JSON string, because a piece may be a line break or a quotation mark.
    return "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries).encode()


def _characters(texts: tf.Tensor, normalize_spaces: bool) -> tf.RaggedTensor:
    texts = _single_spaces(texts) if normalize_spaces else texts
    return tf.strings.unicode_split(texts, "UTF-8")


def _words(texts: tf.Tensor) -> tf.RaggedTensor:
    return tf.strings.split(_single_spaces(texts))


def _most_frequent(batches: Iterable[tf.RaggedTensor], max_vocabulary_size: int | None) -> list[str]:
    """Return the pieces of a corpus by descending frequency, ties in code point order."""
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
    """Raise if a piece is not a string, is repeated, or cannot occur in a (lower-cased) text."""
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
    """Return False for empty strings, special tokens, and pieces with NUL, U+FFFD or surrogates."""
    forbidden = any(c in "\0" + REPLACEMENT_CHARACTER or "\ud800" <= c <= "\udfff" for c in piece)
    return bool(piece) and piece not in SPECIAL_TOKENS and not forbidden
