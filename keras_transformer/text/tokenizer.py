"""What every tokenizer does: strings to token ids and back, and saving."""

import abc
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import tensorflow as tf
from typing_extensions import Self

from keras_transformer.errors import InputError
from keras_transformer.files import read_file, write_file
from keras_transformer.text.normalization import normalize

OPTIONS_FILE = "tokenizer.json"


def write_tokenizer(
    directory: Path,
    vocabulary_file: str,
    vocabulary: bytes,
    options: Mapping[str, object],
) -> None:
    """Writes both files, each beside its place and renamed.

    Args:
        directory: created if absent.
        vocabulary_file: the name of the vocabulary file.
        vocabulary: its content.
        options: the kind and the options of the tokenizer.

    Raises:
        InputError: a file cannot be written.
    """
    write_file(directory / vocabulary_file, vocabulary)
    saved = {**options, "vocabulary_sha256": _sha256(vocabulary)}
    # Last: a directory with this file is a complete tokenizer.
    write_file(directory / OPTIONS_FILE, (json.dumps(saved, indent=2) + "\n").encode())


def read_options(directory: Path) -> dict[str, object]:
    """Reads the options of a saved tokenizer.

    Args:
        directory: where `write_tokenizer` wrote.

    Returns:
        names and values, `kind` and `vocabulary_sha256` among them.

    Raises:
        InputError: the file is missing or damaged.
    """
    path = directory / OPTIONS_FILE
    content = read_file(path)
    try:
        options = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must hold JSON. Received: {error}.") from error
    if not isinstance(options, dict):
        raise InputError(f"{path} must hold a JSON object. Received: {options!r}.")
    return options


def read_flags(directory: Path, kind: str, names: tuple[str, ...]) -> dict[str, bool]:
    """Reads the constructor options of a saved tokenizer.

    Args:
        directory: where `write_tokenizer` wrote.
        kind: the kind that it must have.
        names: the options that it may have.

    Returns:
        the options that the file holds.

    Raises:
        InputError: the kind differs, an option is unknown, or a value is not a boolean.
    """
    path, options = directory / OPTIONS_FILE, read_options(directory)
    options.pop("vocabulary_sha256", None)
    received = options.pop("kind", None)
    if received != kind:
        raise InputError(f"{path}: kind must be {kind!r}. Received: {received!r}.")
    flags: dict[str, bool] = {}
    for name, value in options.items():
        if name not in names:
            raise InputError(f"{path}: options must be among {names}. Received: {name!r}.")
        if not isinstance(value, bool):
            raise InputError(f"{path}: {name} must be true or false. Received: {value!r}.")
        flags[name] = value
    return flags


def check_vocabulary_hash(directory: Path, vocabulary_file: str, vocabulary: bytes) -> None:
    """Checks that a vocabulary file is the one that was saved.

    A changed vocabulary no longer fits the weights that were trained with it.

    Args:
        directory: where `write_tokenizer` wrote.
        vocabulary_file: the name of the vocabulary file.
        vocabulary: its content.

    Raises:
        InputError: the content differs; an options file without a hash accepts any.
    """
    received, wanted = _sha256(vocabulary), read_options(directory).get("vocabulary_sha256")
    if wanted not in (None, received):
        path = directory / vocabulary_file
        raise InputError(f"{path} is damaged: SHA-256 must be {wanted}. Received: {received}.")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


PAD_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[START]", "[END]")
NUM_SPECIAL_TOKENS = len(SPECIAL_TOKENS)


AnyTokenizer = TypeVar("AnyTokenizer", bound="Tokenizer")


class Tokenizer(tf.Module, abc.ABC):
    """Turns strings into token ids and back, in TensorFlow operations.

    A tokenizer is a `tf.Module`: assigned to an attribute of an exported module, it
    travels inside the SavedModel with its vocabulary. Its methods run eagerly and in a
    `tf.function`, accept every byte string, and treat each row alone.

    Args:
        pieces: the readable form of every token id, special tokens first.
        lowercase: whether texts are lower-cased before they are split.
    """

    kind: ClassVar[str]
    needs_tensorflow_text: ClassVar[bool] = False
    vocabulary_file: ClassVar[str]
    option_names: ClassVar[tuple[str, ...]] = ("lowercase",)

    def __init__(self, pieces: Sequence[str], *, lowercase: bool = False) -> None:
        super().__init__()
        self.lowercase = lowercase
        self._pieces = tf.constant(list(pieces), tf.string)

    @property
    def vocabulary_size(self) -> int:
        """The number of token ids, the special ones included."""
        return int(self._pieces.shape[0])

    @property
    def options(self) -> dict[str, bool]:
        """The constructor's options by name, without the vocabulary."""
        return {name: getattr(self, name) for name in self.option_names}

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits texts into token ids, without adding special tokens.

        Args:
            texts: string (b,), any bytes, or a list of strings. What is not in the vocabulary becomes
                `UNKNOWN_ID`, and so does what is no UTF-8; subwords take it for a space.

        Returns:
            int32 (b, ragged).

        Raises:
            ValueError: `texts` is not of rank 1.
        """
        if isinstance(texts, list | tuple):
            texts = [_encoded(text) for text in texts]
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank not in (1, None):
            raise ValueError(f"`texts` must have shape (b,). Received: shape={texts.shape}.")
        texts = tf.ensure_shape(texts, [None])
        return self._encode(normalize(texts, lowercase=self.lowercase))

    def detokenize(self, token_ids: tf.Tensor) -> tf.Tensor:
        """Joins token ids into texts.

        Args:
            token_ids: integer (b, t), dense or ragged. Everything from the first
                `END_ID` on, special tokens and ids outside the vocabulary are left out.

        Returns:
            string (b,).

        Raises:
            ValueError: `token_ids` is not of rank 2.
        """
        token_ids = _dense(token_ids)
        ended = tf.cumsum(tf.cast(token_ids == END_ID, tf.int32), axis=1) > 0
        is_text = (token_ids >= NUM_SPECIAL_TOKENS) & (token_ids < self.vocabulary_size)
        return self._decode(tf.ragged.boolean_mask(token_ids, is_text & ~ended))

    def tokens(self, token_ids: tf.Tensor) -> tf.Tensor:
        """Names each token id, to label alignments.

        Args:
            token_ids: integer (b, t), dense or ragged.

        Returns:
            string (b, t): the piece of each id, `""` for `PAD_ID`, and the name of the
            unknown token for ids outside the vocabulary.

        Raises:
            ValueError: `token_ids` is not of rank 2.
        """
        token_ids = _dense(token_ids)
        is_known = (token_ids >= 0) & (token_ids < self.vocabulary_size)
        pieces = tf.gather(self._pieces, tf.where(is_known, token_ids, UNKNOWN_ID))
        return tf.where(token_ids == PAD_ID, "", pieces)

    def fingerprint(self) -> str:
        """Computes the SHA-256 of all that decides which ids a text gets, in 64 hexadecimal digits."""
        options = json.dumps({"kind": self.kind, **self.options}, sort_keys=True)
        return hashlib.sha256(options.encode() + b"\n" + self._vocabulary_bytes()).hexdigest()

    def save(self, directory: str | Path) -> None:
        """Writes the tokenizer, to be read by `load` or `load_tokenizer`.

        Args:
            directory: created if absent. Each file is written beside and renamed.

        Raises:
            InputError: a file cannot be written.
        """
        options = {"kind": self.kind, **self.options}
        vocabulary = self._vocabulary_bytes()
        write_tokenizer(Path(directory), self.vocabulary_file, vocabulary, options)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Reads a tokenizer of this class.

        Args:
            directory: where `save` wrote.

        Returns:
            the tokenizer.

        Raises:
            InputError: a file is missing, damaged, or of another kind of tokenizer.
        """
        directory = Path(directory)
        path = directory / cls.vocabulary_file
        flags = read_flags(directory, cls.kind, cls.option_names)
        vocabulary = read_file(path)
        try:
            tokenizer = cls._restore(path, vocabulary, flags)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{path} is damaged. {error}") from error
        check_vocabulary_hash(directory, cls.vocabulary_file, vocabulary)
        return tokenizer

    @classmethod
    def asset_files(cls, directory: str | Path) -> list[Path]:
        """Lists the vocabulary files in a directory written by `save`.

        Args:
            directory: where `save` wrote.

        Returns:
            paths fit for `tf.saved_model.Asset`.
        """
        return [Path(directory) / cls.vocabulary_file]

    def __reduce__(self) -> tuple[Callable[..., "Tokenizer"], tuple[object, ...]]:
        """Pickles and copies: TensorFlow's tables cannot be, so they are built anew."""
        arguments = (Path(self.vocabulary_file), self._vocabulary_bytes(), self.options)
        return type(self)._restore, arguments

    @abc.abstractmethod
    def _encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Maps normalized texts, string (b,), to int32 (b, ragged)."""

    @abc.abstractmethod
    def _decode(self, token_ids: tf.RaggedTensor) -> tf.Tensor:
        """Maps ids of text, int32 (b, ragged), to string (b,)."""

    @abc.abstractmethod
    def _vocabulary_bytes(self) -> bytes:
        """Gives the content of the vocabulary file."""

    @classmethod
    @abc.abstractmethod
    def _restore(
        cls: type[AnyTokenizer], path: Path, vocabulary: bytes, flags: dict[str, bool]
    ) -> AnyTokenizer:
        """Builds a tokenizer from the content of its vocabulary file, named in errors."""


def _encoded(text: str | bytes) -> bytes:
    """Give the bytes of a text, also of a lone surrogate, which JSON may hold and no vocabulary knows."""
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _dense(token_ids: tf.Tensor) -> tf.Tensor:
    """Gives int32 (b, t), padded where the input was ragged."""
    if isinstance(token_ids, tf.RaggedTensor):
        token_ids = token_ids.to_tensor(PAD_ID)
    token_ids = tf.cast(token_ids, tf.int32)
    if token_ids.shape.rank not in (2, None):
        raise ValueError(f"`token_ids` must have shape (b, t). Received: shape={token_ids.shape}.")
    return tf.ensure_shape(token_ids, [None, None])


def source_token_ids(texts: tf.Tensor, tokenizer: Tokenizer, max_length: int) -> tf.Tensor:
    """Tokenizes sources, ends each with `END_ID` and pads them to the longest.

    Args:
        texts: string (b,).
        tokenizer: of the source language.
        max_length: most tokens of a row, the end token included; what follows is cut off.

    Returns:
        int32 (b, s), with s at least 1.
    """
    token_ids = tokenizer.tokenize(texts)[:, : max_length - 1]
    ends = tf.fill([token_ids.nrows(), 1], END_ID)
    return tf.concat([token_ids, ends], axis=1).to_tensor(PAD_ID)
