"""Tokenizers whose pieces are looked up in a table, one by one."""

import abc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import tensorflow as tf
from typing_extensions import Self

from keras_transformer.text.normalization import REPLACEMENT_CHARACTER, normalize
from keras_transformer.text.special_tokens import (
    NUM_SPECIAL_TOKENS,
    SPECIAL_TOKENS,
    UNKNOWN_ID,
)
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.text.vocabulary_file import format_vocabulary, parse_vocabulary

AnyLookupTokenizer = TypeVar("AnyLookupTokenizer", bound="LookupTokenizer")


class LookupTokenizer(Tokenizer):
    """Splits texts and looks each piece up; TensorFlow core operations only.

    Args:
        vocabulary: the pieces after the special tokens, in the order of their ids.
        lowercase: whether texts are lower-cased before they are split.

    Raises:
        ValueError: the vocabulary is empty, or an entry repeats, can never occur in a
            text, or has the name of a special token.
        TypeError: an entry is no string.
    """

    vocabulary_file: ClassVar[str] = "vocabulary.txt"
    separator: ClassVar[str]

    def __init__(self, vocabulary: Sequence[str], *, lowercase: bool = False) -> None:
        check_vocabulary(vocabulary)
        if lowercase:
            _check_lowercase(vocabulary)
        super().__init__((*SPECIAL_TOKENS, *vocabulary), lowercase=lowercase)
        ids = tf.range(NUM_SPECIAL_TOKENS, self.vocabulary_size, dtype=tf.int32)
        entries = tf.lookup.KeyValueTensorInitializer(self._pieces[NUM_SPECIAL_TOKENS:], ids)
        self._table = tf.lookup.StaticHashTable(entries, default_value=UNKNOWN_ID)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The pieces after the special tokens, in the order of their ids."""
        return tuple(piece.decode() for piece in self._pieces.numpy()[NUM_SPECIAL_TOKENS:])

    @abc.abstractmethod
    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits normalized texts, string (b,), into pieces, string (b, ragged)."""

    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        pieces = self._split(texts)  # (b, ragged)
        return pieces.with_flat_values(self._table.lookup(pieces.flat_values))

    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        pieces = tf.gather(self._pieces, token_ids)  # (b, ragged)
        return tf.strings.reduce_join(pieces, axis=-1, separator=self.separator)

    def _vocabulary_bytes(self) -> bytes:
        return format_vocabulary(self.vocabulary)

    @classmethod
    def _restore(cls, path: Path, vocabulary: bytes, flags: dict[str, bool]) -> Self:
        return cls(parse_vocabulary(path, vocabulary), **flags)


def check_vocabulary(vocabulary: Iterable[str]) -> None:
    """Checks what holds for the vocabulary of every table.

    Args:
        vocabulary: the pieces after the special tokens.

    Raises:
        ValueError: there is none, or one is empty, repeats, is not clean UTF-8, or has
            the name of a special token.
        TypeError: one is no string.
    """
    seen: set[str] = set()
    for piece in vocabulary:
        if not isinstance(piece, str):
            raise TypeError(f"`vocabulary` must hold strings. Received: {piece!r}.")
        if not is_usable(piece):
            raise ValueError(f"`vocabulary` must hold pieces that a text can have. Received: {piece!r}.")
        if piece in seen:
            raise ValueError(f"`vocabulary` must not repeat a piece. Received: {piece!r} twice.")
        seen.add(piece)
    if not seen:
        raise ValueError(f"`vocabulary` must not be empty. Received: {vocabulary!r}.")


def _check_lowercase(vocabulary: Sequence[str]) -> None:
    """Refuse what no lower-cased text has."""
    for piece, lowered in zip(vocabulary, normalize(list(vocabulary), lowercase=True).numpy(), strict=True):
        if piece.encode() != lowered:
            raise ValueError(f"`vocabulary` must be lower case with `lowercase`. Received: {piece!r}.")


def is_usable(piece: str) -> bool:
    """Says whether a piece may be in a vocabulary.

    Args:
        piece: a candidate.

    Returns:
        False for the empty string, names of special tokens, and what normalization
        replaces: NUL, U+FFFD, lone surrogates.
    """
    forbidden = any(c in "\0" + REPLACEMENT_CHARACTER or "\ud800" <= c <= "\udfff" for c in piece)
    return bool(piece) and piece not in SPECIAL_TOKENS and not forbidden
