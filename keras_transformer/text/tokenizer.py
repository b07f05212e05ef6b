"""The base of all tokenizers: strings to token ids and back."""

import abc
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import tensorflow as tf

from keras_transformer._arguments import as_strings, check_flags, check_kind, check_positive, check_several
from keras_transformer._files import as_path
from keras_transformer.errors import InputError
from keras_transformer.text.normalization import _as_utf8, _normalize
from keras_transformer.text.reader import Reader, load_reader
from keras_transformer.types import SPECIAL_IDS, SPECIAL_TOKENS

# Of a text that is tokenized up to a number of tokens, so many bytes at least are read.
_MAX_BYTES, _MAX_PIECE_BYTES = 2**18, 64


class Tokenizer(Reader):
    """Turns strings into token ids and back, in TensorFlow operations.

    A tokenizer is a `tf.Module`: assigned to an attribute of an exported module, it
    travels inside the SavedModel with its vocabulary. Its methods run eagerly and in a
    `tf.function`, accept every byte string, and treat each row alone.

    Args:
        pieces: the readable form of every token id, special tokens first.
        lowercase: whether texts are lower-cased before they are split.
    """

    option_names: ClassVar[tuple[str, ...]] = ("lowercase",)
    prefix_ids: tuple[int, ...] = ()
    """The tokens that stand before every text: its language, say."""
    end_ids: tuple[int, ...] = (SPECIAL_IDS.end,)
    """The tokens that end a source: the end token, and perhaps its language after it."""

    def __init__(self, pieces: Sequence[str], *, lowercase: bool = False) -> None:
        check_flags(lowercase=lowercase)
        super().__init__()
        self.lowercase = lowercase
        self._pieces = tf.constant(list(pieces), tf.string)
        self.original_ids: np.ndarray = np.arange(self.vocabulary_size)
        """Of each token id the one in the vocabulary that it comes from, -1 for none: int64 (v,)."""

    def __repr__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options.items() if value)
        return f"<{type(self).__name__}: kind={self.kind!r}, vocabulary_size={self.vocabulary_size}{options}>"

    @property
    def vocabulary_size(self) -> int:
        """The number of token ids, the special ones included."""
        return int(self._pieces.shape[0])

    def tokenize(self, texts: tf.Tensor | Sequence[str | bytes]) -> tf.RaggedTensor:
        """Split texts into token ids, without adding special tokens.

        Args:
            texts: string (b,), any bytes, or a list of strings. What is not in the vocabulary
                becomes the unknown token, and so does what is not UTF-8; subwords take it for a space.

        Returns:
            int32 (b, ragged).

        Raises:
            ValueError: `texts` is not of rank 1.
        """
        return self._encode(_normalize(_as_texts(texts), lowercase=self.lowercase))

    def __call__(self, texts: tf.Tensor | Sequence[str | bytes] | str | bytes) -> tf.Tensor | tf.RaggedTensor:
        """Do what `tokenize` does, and take a single text too, as tokenizers of KerasHub: int32 (t,)."""
        if isinstance(texts, str | bytes):
            return self.tokenize([texts])[0]
        if isinstance(texts, tf.Tensor) and texts.shape.rank == 0:
            return self.tokenize(texts[tf.newaxis])[0]
        return self.tokenize(texts)

    def padded_ids(self, texts: tf.Tensor | Sequence[str | bytes], max_length: int) -> tf.Tensor:
        """Split texts into token ids, end each row with `end_ids` and pad to the longest.

        Args:
            texts: string (b,), as in `tokenize`.
            max_length: most tokens of a row, those of the end included; what follows is cut off.

        Returns:
            int32 (b, s), with s at least 1.
        """
        return self.ended_ids(texts, max_length)[0]

    def ended_ids(
        self, texts: tf.Tensor | Sequence[str | bytes], max_length: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Do what `padded_ids` does, and say which texts were cut off, boolean (b,)."""
        check_positive(max_length=max_length)
        texts = _as_texts(texts)
        # SentencePiece takes hours for ten megabytes of unknown characters, of which the first tokens are
        # wanted. Few pieces are as long as this.
        limit = max(_MAX_BYTES, _MAX_PIECE_BYTES * max_length)
        is_cut = tf.strings.length(texts) > limit
        token_ids, room = self.tokenize(tf.strings.substr(texts, 0, limit)), max_length - len(self.end_ids)
        is_cut |= token_ids.row_lengths() > room
        ends = tf.tile(tf.constant([self.end_ids], tf.int32), [token_ids.nrows(), 1])
        return tf.concat([token_ids[:, :room], ends], axis=1).to_tensor(SPECIAL_IDS.pad), is_cut

    def detokenize(self, token_ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Join token ids into texts.

        Args:
            token_ids: integer (b, t), dense or ragged. Everything from the first end token on,
                special tokens and ids outside the vocabulary are left out.

        Returns:
            string (b,).

        Raises:
            ValueError: `token_ids` is not of rank 2.
        """
        token_ids = _dense(token_ids)
        ended = tf.cumsum(tf.cast(token_ids == SPECIAL_IDS.end, tf.int32), axis=1) > 0
        is_text = (token_ids >= len(SPECIAL_TOKENS)) & (token_ids < self.vocabulary_size)
        return self._decode(tf.ragged.boolean_mask(token_ids, is_text & ~ended))

    def round_trip(self, texts: Sequence[str]) -> list[str]:
        """Tokenize texts and join their tokens again, as a model with this vocabulary writes them.

        Args:
            texts: strings.

        Returns:
            The texts in lower case, with other spaces or characters, where the tokenizer reads them so.
        """
        joined = self.detokenize(self.tokenize(as_strings(texts=texts))).numpy().tolist()
        return [text.decode("utf-8", "replace") for text in joined]

    def tokens(self, token_ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Name each token id, to label alignments.

        Args:
            token_ids: integer (b, t), dense or ragged.

        Returns:
            string (b, t): the piece of each id, `""` for padding, and the name of the
            unknown token for ids outside the vocabulary.

        Raises:
            ValueError: `token_ids` is not of rank 2.
        """
        token_ids = _dense(token_ids)
        is_known = (token_ids >= 0) & (token_ids < self.vocabulary_size)
        pieces = tf.gather(self._pieces, tf.where(is_known, token_ids, SPECIAL_IDS.unknown))
        return tf.where(token_ids == SPECIAL_IDS.pad, "", pieces)

    @abc.abstractmethod
    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Map normalized texts, string (b,), to int32 (b, ragged)."""

    @abc.abstractmethod
    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        """Map ids of text, int32 (b, ragged), to string (b,)."""


def load_tokenizer(directory: str | Path) -> Tokenizer:
    """Read a tokenizer of any kind.

    Args:
        directory: where `save` of a tokenizer wrote.

    Returns:
        The tokenizer.

    Raises:
        InputError: a file is missing or damaged, or the kind is unknown; the message names the file.
    """
    tokenizer = load_reader(directory)
    if not isinstance(tokenizer, Tokenizer):
        path = as_path(directory) / Tokenizer.options_file
        raise InputError(f"{path}: kind must be that of a tokenizer. Received: {tokenizer.kind!r}.")
    return tokenizer


def _as_texts(texts: tf.Tensor | Sequence[str | bytes]) -> tf.Tensor:
    """Return texts as a tensor of strings (b,); raise TypeError or ValueError for anything else."""
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
    """Return int32 (b, t), padded where the input was ragged."""
    if isinstance(token_ids, tf.RaggedTensor):
        token_ids = token_ids.to_tensor(SPECIAL_IDS.pad)
    token_ids = tf.cast(token_ids, tf.int32)
    if token_ids.shape.rank not in (2, None):
        raise ValueError(f"`token_ids` must have shape (b, t). Received: shape={token_ids.shape}.")
    return tf.ensure_shape(token_ids, [None, None])
