"""Base class of all tokenizers."""

import abc
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import (
    as_strings,
    check_flags,
    check_kind,
    check_number,
    check_several,
    is_text,
)
from keras_transformer.text.normalization import _as_utf8, _normalize
from keras_transformer.text.reader import Reader
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS, Batch, Columns, Value

# Texts are truncated to max(_MAX_BYTES, _MAX_PIECE_BYTES * max_length) bytes before tokenizing.
_MAX_BYTES, _MAX_PIECE_BYTES = 2**18, 64
# Control characters, which subword tokenizers ignore, Unicode white space, and zero-width characters.
_BLANK = r"[\p{Cc}\p{Z}\x{180e}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{206f}\x{feff}]*"


class Tokenizer(Reader):
    """Base class of tokenizers: convert strings to token ids and back in TensorFlow operations.

    The methods run eagerly and in a `tf.function`, and accept any bytes. `Reader` describes saving and
    exporting.

    Args:
        pieces: Readable form of each token id, special tokens first.
        lowercase: Whether to lower-case texts first.
    """

    option_names: ClassVar[tuple[str, ...]] = ("lowercase",)
    prefix_ids: tuple[int, ...] = ()
    """Tokens before every text, such as a language token."""
    end_ids: tuple[int, ...] = (SPECIAL_IDS.end,)
    """Tokens after every source: the end token, for some models followed by a language token."""
    columns: ClassVar[Columns] = {"text": ("string", 1)}
    hard_values = ("", "  ", "\u3000\u2028\u200b", "\U0001f600 \u05e9\u05dc\u05d5\u05dd", b"\xff\xfe\xc3")
    about = "Bytes that are not valid UTF-8 are accepted."
    input_specs = (((None, None), "int32"),)

    def __init__(self, pieces: Sequence[str], *, lowercase: bool = False) -> None:
        check_flags(lowercase=lowercase)
        super().__init__()
        self.lowercase = lowercase
        self._pieces = tf.constant(list(pieces), tf.string)
        self.original_ids: np.ndarray = np.arange(self.vocabulary_size)
        """Id of each token in the original vocabulary of an adapted tokenizer, -1 if absent: int64 (v,)."""

    def __repr__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options.items() if value)
        return f"<{type(self).__name__}: kind={self.kind!r}, vocabulary_size={self.vocabulary_size}{options}>"

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids, including the special tokens."""
        return int(self._pieces.shape[0])

    def tokenize(self, texts: tf.Tensor | Sequence[str | bytes]) -> tf.RaggedTensor:
        """Split texts into token ids, without special tokens.

        Args:
            texts: string (b,), any bytes, or a list of strings. Pieces outside the vocabulary and invalid
                UTF-8 become the unknown token; subword tokenizers read invalid UTF-8 as a space.

        Returns:
            int32 (b, ragged).

        Raises:
            ValueError: If `texts` does not have rank 1.
        """
        return self._encode(_normalize(_as_texts(texts), lowercase=self.lowercase))

    def __call__(self, texts: tf.Tensor | Sequence[str | bytes] | str | bytes) -> tf.Tensor | tf.RaggedTensor:
        """Call `tokenize`. A single text is accepted too, as in KerasHub, and returns int32 (t,)."""
        if isinstance(texts, str | bytes):
            return self.tokenize([texts])[0]
        if isinstance(texts, tf.Tensor) and texts.shape.rank == 0:
            return self.tokenize(texts[tf.newaxis])[0]
        return self.tokenize(texts)

    def padded_ids(self, texts: tf.Tensor | Sequence[str | bytes], max_length: int) -> tf.Tensor:
        """Split texts into token ids, append `end_ids` to each row and pad to the longest row.

        Args:
            texts: string (b,), as for `tokenize`.
            max_length: Maximum number of tokens of a row, including `end_ids`. Longer texts are truncated.

        Returns:
            int32 (b, s), with s at least 1.
        """
        return self.ended_ids(texts, max_length)[0]

    def ended_ids(
        self, texts: tf.Tensor | Sequence[str | bytes], max_length: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return `padded_ids`, and which texts were truncated, boolean (b,)."""
        check_number(at_least=max(1, len(self.end_ids)), whole=True, max_length=max_length)
        texts = _as_texts(texts)
        # SentencePiece takes hours for ten megabytes of unknown characters, although only the first tokens
        # are needed. Few pieces are longer than `_MAX_PIECE_BYTES`.
        limit = max(_MAX_BYTES, _MAX_PIECE_BYTES * max_length)
        is_cut = tf.strings.length(texts) > limit
        token_ids = self.tokenize(tf.strings.substr(texts, 0, limit))
        max_tokens = max_length - len(self.end_ids)
        is_cut |= token_ids.row_lengths() > max_tokens
        ends = tf.tile(tf.constant([self.end_ids], tf.int32), [token_ids.nrows(), 1])
        return _padded(tf.concat([token_ids[:, :max_tokens], ends], axis=1)), is_cut

    def detokenize(self, token_ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Join token ids into texts.

        Args:
            token_ids: integer (b, t), dense or ragged. Special tokens, ids outside the vocabulary and
                everything from the first end token on are ignored.

        Returns:
            string (b,).

        Raises:
            ValueError: If `token_ids` does not have rank 2.
        """
        token_ids = _dense(token_ids)
        ended = tf.cumsum(tf.cast(token_ids == SPECIAL_IDS.end, tf.int32), axis=1) > 0
        is_text = (token_ids >= len(SPECIAL_TOKENS)) & (token_ids < self.vocabulary_size)
        return self._decode(tf.ragged.boolean_mask(token_ids, is_text & ~ended))

    def round_trip(self, texts: Sequence[str]) -> list[str]:
        """Tokenize and detokenize texts. The result is how a model with this vocabulary writes them.

        Args:
            texts: Strings.

        Returns:
            The texts. Case, spaces and characters may differ, depending on the tokenizer.
        """
        joined = self.detokenize(self.tokenize(as_strings(texts=texts))).numpy().tolist()
        return [text.decode("utf-8", "replace") for text in joined]

    def tokens(self, token_ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Return the readable form of each token id, for example to label alignments.

        Args:
            token_ids: integer (b, t), dense or ragged.

        Returns:
            string (b, t): The piece of each id; `""` for padding, and the unknown token for ids outside the
            vocabulary.

        Raises:
            ValueError: If `token_ids` does not have rank 2.
        """
        token_ids = _dense(token_ids)
        is_known = (token_ids >= 0) & (token_ids < self.vocabulary_size)
        pieces = tf.gather(self._pieces, tf.where(is_known, token_ids, SPECIAL_IDS.unknown))
        return tf.where(token_ids == SPECIAL_IDS.pad, "", pieces)

    def example(self) -> Value:
        """Return the text of the first tokens of the vocabulary."""
        first = len(SPECIAL_TOKENS)
        token_ids = tf.range(first, min(first + 8, self.vocabulary_size))
        [text] = self.detokenize(token_ids[tf.newaxis]).numpy().tolist()
        return str(text.decode("utf-8", "replace"))

    @classmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        """Validate strings and return them as a list. Raise `TypeError` for a single string."""
        return [*as_strings(**{argument: values})]

    @classmethod
    def is_one(cls, value: object) -> bool:
        """Return whether a value is a single string."""
        return is_text(value)

    @classmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        """Convert strings to a tensor of UTF-8 bytes, string `(b,)`."""
        texts: Any = values
        return (tf.constant([*map(_as_utf8, texts)], tf.string, [len(values)]),)

    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        """Return `padded_ids`, int32 `(b, s)`, and which texts were truncated."""
        [texts] = columns
        token_ids, is_cut = self.ended_ids(texts, max_length)
        return (token_ids,), is_cut

    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which texts have no visible character, boolean `(b,)`; training has no empty texts."""
        [texts] = columns
        return tf.strings.regex_full_match(texts, _BLANK)

    def position_names(self, inputs: Batch, stride: int) -> tf.Tensor:
        """Return the string of each token, string `(b, s)`."""
        [token_ids] = inputs
        return self.tokens(token_ids)

    @abc.abstractmethod
    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Convert normalized texts, string (b,), to token ids, int32 (b, ragged)."""

    @abc.abstractmethod
    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        """Convert ids without special tokens, int32 (b, ragged), to string (b,)."""


def _padded(rows: tf.RaggedTensor) -> tf.Tensor:
    """Return token ids (b, s), padded to the longest row, with s at least 1."""
    token_ids = rows.to_tensor(SPECIAL_IDS.pad)
    # Even without rows, since a reshape cannot infer the size of 0 elements.
    return tf.pad(token_ids, [[0, 0], [0, tf.maximum(1 - tf.shape(token_ids)[1], 0)]])


def _as_texts(texts: tf.Tensor | Sequence[str | bytes]) -> tf.Tensor:
    """Return texts as a string tensor (b,); raise TypeError or ValueError for other inputs."""
    if isinstance(texts, list | tuple):
        check_several((str, bytes), texts=texts)
        texts = [_as_utf8(text) for text in texts]
    check_kind(list, np.ndarray, tf.Tensor, texts=texts)
    texts = tf.convert_to_tensor(texts, tf.string if isinstance(texts, list) else None)
    if texts.dtype != tf.string:
        raise TypeError(f"`texts` must hold strings. Received: dtype={texts.dtype.name}.")
    if texts.shape.rank not in (1, None):
        raise ValueError(f"`texts` must have shape (b,). Received: shape={texts.shape}.")
    return tf.ensure_shape(texts, [None])


def _dense(token_ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    """Return token ids as int32 (b, t), padding ragged inputs."""
    if isinstance(token_ids, tf.RaggedTensor):
        token_ids = token_ids.to_tensor(SPECIAL_IDS.pad)
    token_ids = tf.cast(token_ids, tf.int32)
    if token_ids.shape.rank not in (2, None):
        raise ValueError(f"`token_ids` must have shape (b, t). Received: shape={token_ids.shape}.")
    return tf.ensure_shape(token_ids, [None, None])
