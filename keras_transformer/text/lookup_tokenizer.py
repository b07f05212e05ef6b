"""Tokenizers whose pieces are looked up in a table, one by one."""

import abc
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import tensorflow as tf
from typing_extensions import Self

from keras_transformer.errors import InputError
from keras_transformer.text.normalization import REPLACEMENT_CHARACTER, normalize, single_spaces
from keras_transformer.text.tokenizer import NUM_SPECIAL_TOKENS, SPECIAL_TOKENS, UNKNOWN_ID, Tokenizer


def format_vocabulary(vocabulary: Sequence[str]) -> bytes:
    """Writes a vocabulary as the bytes of its file.

    Args:
        vocabulary: the entries after the special tokens, in the order of their ids.

    Returns:
        UTF-8 text, one JSON string a line.
    """
    entries = (*SPECIAL_TOKENS, *vocabulary)
    lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    return "".join(f"{line}\n" for line in lines).encode()


def parse_vocabulary(path: Path, content: bytes) -> list[str]:
    """Reads the bytes of a vocabulary file.

    Args:
        path: the file, named in errors.
        content: its bytes.

    Returns:
        the entries after the special tokens.

    Raises:
        InputError: a line is no JSON string, or the special tokens are not the first.
    """
    # Not `splitlines`, which also breaks at characters that may be entries.
    lines = content.removesuffix(b"\n").split(b"\n")
    entries = [_parse_line(path, number, line) for number, line in enumerate(lines, 1)]
    first = tuple(entries[:NUM_SPECIAL_TOKENS])
    if first != SPECIAL_TOKENS:
        raise InputError(f"{path} must start with {SPECIAL_TOKENS}. Received: {first}.")
    return entries[NUM_SPECIAL_TOKENS:]


def _parse_line(path: Path, number: int, line: bytes) -> str:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, or a thousand brackets
        entry = None
    if isinstance(entry, str):
        return entry
    shown = line[:60].decode(errors="backslashreplace")
    raise InputError(f"{path}:{number}: each line must be a JSON string. Received: {shown!r}.")


_TEXTS_PER_BATCH = 1024


def text_batches(texts: Iterable[str]) -> Iterator[tf.Tensor]:
    """Groups Python strings into tensors.

    Args:
        texts: any number of strings.

    Yields:
        string (b,).

    Raises:
        TypeError: `texts` is one string, whose characters would be taken for texts.
    """
    if isinstance(texts, str):
        raise TypeError(f"`texts` must be several strings. Received: {texts[:60]!r}.")
    # A lone surrogate has no UTF-8 form; the tokenizer replaces the bytes it leaves.
    rows = (text.encode("utf-8", "surrogatepass") for text in texts)
    while batch := list(itertools.islice(rows, _TEXTS_PER_BATCH)):
        yield tf.constant(batch, tf.string)


def train_vocabulary(
    texts: Iterable[str],
    split: Callable[[tf.Tensor], tf.RaggedTensor],
    is_usable: Callable[[str], bool],
    max_vocabulary_size: int | None = None,
) -> list[str]:
    """Finds the most frequent pieces of a corpus.

    Args:
        texts: the corpus.
        split: maps texts, string (b,), to pieces, string (b, ragged), exactly as the
            tokenizer will.
        is_usable: says which pieces may be in a vocabulary.
        max_vocabulary_size: the most token ids, special ones included; all if None.

    Returns:
        the pieces, most frequent first, equally frequent ones in code point order.

    Raises:
        ValueError: `max_vocabulary_size` has no room for a piece.
        InputError: the corpus holds no usable piece.
    """
    if max_vocabulary_size is not None and max_vocabulary_size <= NUM_SPECIAL_TOKENS:
        raise ValueError(
            f"`max_vocabulary_size` must exceed the {NUM_SPECIAL_TOKENS} special tokens. "
            f"Received: max_vocabulary_size={max_vocabulary_size}."
        )
    counts: Counter[bytes] = Counter()
    for batch in text_batches(texts):
        counts.update(split(batch).flat_values.numpy().tolist())
    pieces = {piece.decode(): count for piece, count in counts.items() if is_usable(piece.decode())}
    if not pieces:
        raise InputError("Cannot train a vocabulary: the corpus holds no text. Received: 0 pieces.")
    ranked = sorted(pieces, key=lambda piece: (-pieces[piece], piece))
    return ranked[: None if max_vocabulary_size is None else max_vocabulary_size - NUM_SPECIAL_TOKENS]


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
