"""Base class of tokenizers and frame normalizers: input preprocessing that is saved with a model."""

import abc
import contextlib
import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Self

import tensorflow as tf

from keras_transformer._files import as_json, as_path, read_file, read_table, write_file
from keras_transformer.errors import InputError
from keras_transformer.types import Batch, Columns, Shape, Value

_KINDS: dict[str, type["Reader"]] = {}


class Reader(tf.Module, abc.ABC):
    """Base class of what reads the sources of a task: tokenizers and frame normalizers.

    A batch is a tuple of tensors, one for each column of a request; `read` converts it to the model's inputs.
    `read` and `is_empty` consist of TensorFlow operations, so that an export can serve them.

    A reader is a `tf.Module`: assigned to an attribute of an exported module, it is saved inside the
    SavedModel together with its files. `save` writes two files: the options, and what was learned from data.
    """

    kind: ClassVar[str]
    """Name of the class in the options file."""
    options_file: ClassVar[str] = "tokenizer.json"
    vocabulary_file: ClassVar[str]
    """Name of the file with what was learned from data."""
    option_names: ClassVar[tuple[str, ...]] = ()
    needs_tensorflow_text: bool = False
    """Whether a program that loads an export must import `tensorflow_text` first."""
    by_column: ClassVar[dict[str, type["Reader"]]] = {}
    """Subclasses by `column`. A served model has no reader, and finds the class of its reader here."""
    columns: ClassVar[Columns]
    """Inputs of a served signature; their first axis is the batch."""
    column: ClassVar[str]
    """Name of the first column."""
    unit: ClassVar[str] = "tokens"
    """Unit of a source's length."""
    end_ids: tuple[int, ...] = ()
    """Token ids appended to each source."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "columns" in vars(cls):
            cls.column = next(iter(cls.columns))
            Reader.by_column[cls.column] = cls
        if hasattr(cls, "kind"):
            _KINDS[cls.kind] = cls

    @property
    def options(self) -> dict[str, bool]:
        """Constructor options by name, except what was learned from data."""
        return {name: getattr(self, name) for name in self.option_names}

    @property
    @abc.abstractmethod
    def hard_values(self) -> tuple[Value, ...]:
        """Typical invalid or unusual sources, with which an export is verified."""

    @property
    @abc.abstractmethod
    def about(self) -> str:
        """Description of the input in the README of an export."""

    @property
    def feature_dim(self) -> int | None:
        """Number of features of each frame that `read` returns; None for token ids."""
        return None

    @property
    @abc.abstractmethod
    def input_specs(self) -> tuple[tuple[Shape, str], ...]:
        """Shape and dtype of each model input: the values and, for some readers, their mask."""

    @abc.abstractmethod
    def example(self) -> Value:
        """Return an example source, for the warm-up of an export without examples."""

    @classmethod
    @abc.abstractmethod
    def check(cls, argument: str, values: Iterable[object]) -> list[Value]:
        """Validate sources and return them as a list."""

    @classmethod
    def is_one(cls, value: object) -> bool:
        """Return whether a value is a single source, not several. The base class returns False."""
        return False

    @classmethod
    @abc.abstractmethod
    def batch(cls, values: Sequence[Value]) -> Batch:
        """Convert sources to one tensor for each column."""

    @abc.abstractmethod
    def read(self, columns: Batch, max_length: int) -> tuple[Batch, tf.Tensor]:
        """Return the model's inputs, truncated to `max_length`, and which rows were truncated, `(b,)`."""

    @abc.abstractmethod
    def is_empty(self, columns: Batch) -> tf.Tensor:
        """Return which rows are empty and so have an empty output, boolean `(b,)`."""

    @abc.abstractmethod
    def position_names(self, inputs: Batch, stride: int) -> tf.Tensor:
        """Return a name for each position of the encoder's output, string `(b, s)`.

        `inputs` are those that `read` returns, and `stride` is the number of them for each position.
        """

    def fingerprint(self) -> str:
        """Return the SHA-256 of the options and the vocabulary, 64 hexadecimal digits.

        Readers with the same fingerprint give the same ids or numbers for the same input.
        """
        options = json.dumps({"kind": self.kind, **self.options}, sort_keys=True)
        return _sha256(options.encode() + b"\n" + self._vocabulary_bytes())

    def save(self, directory: str | Path) -> None:
        """Write the tokenizer or normalizer to a directory, for `load`.

        Args:
            directory: Created if missing. Each file is written under a temporary name and then renamed.

        Raises:
            InputError: If a file cannot be written.
        """
        directory, vocabulary = as_path(directory), self._vocabulary_bytes()
        saved = {"kind": self.kind, **self.options, "vocabulary_sha256": _sha256(vocabulary)}
        if not (module := type(self).__module__).startswith(f"{__package__}."):
            saved["module"] = module  # `load` imports it
        write_file(directory / self.vocabulary_file, vocabulary)
        # Written last: a directory with this file is complete.
        write_file(directory / self.options_file, as_json(saved))

    def __reduce__(self) -> tuple[Callable[..., "Reader"], tuple[object, ...]]:
        """Pickle and copy by vocabulary and options, because TensorFlow tables cannot be pickled."""
        return type(self)._restore, (self._vocabulary_bytes(), self.options)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Load a saved tokenizer or frame normalizer.

        Args:
            directory: Directory that `save` wrote.

        Returns:
            The reader, of the class that was saved.

        Raises:
            InputError: If a file is missing or damaged, the kind is unknown, or the reader is not of this
                class. The message names the file.

        Example:
            ```python
            tokenizer = kt.text.Tokenizer.load("runs/de_en/source_tokenizer")
            ```
        """
        path = as_path(directory)
        reader = _read(path)
        if not isinstance(reader, cls):
            raise InputError(
                f"{path / cls.options_file} must be of a {cls.__name__}. Received: {type(reader).__name__}."
            )
        return reader

    @abc.abstractmethod
    def _vocabulary_bytes(self) -> bytes:
        """Return the content of the vocabulary file."""

    @classmethod
    @abc.abstractmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        """Create a reader from the content of its vocabulary file; raise ValueError if it is damaged."""


def _read(directory: Path) -> Reader:
    options_path = directory / Reader.options_file
    options = read_table(read_file(options_path), options_path)
    kind, saved_sha256 = options.pop("kind", None), options.pop("vocabulary_sha256", None)
    module = str(options.pop("module", ""))
    # Import the module of a registered class, as Keras does, but only from this package.
    if kind not in [*_KINDS] and module.startswith("keras_transformer."):
        with contextlib.suppress(ImportError):  # the kind stays unknown
            importlib.import_module(module)
    if not isinstance(kind, str) or kind not in _KINDS:
        kinds = tuple(sorted(_KINDS))
        raise InputError(f"{options_path}: kind must be one of {kinds}. Received: {kind!r}.")
    cls = _KINDS[kind]
    path = directory / cls.vocabulary_file
    for name, value in options.items():
        if name not in cls.option_names:
            wanted = f"options must be among {cls.option_names}"
            raise InputError(f"{options_path}: {wanted}. Received: {name!r}.")
        if not isinstance(value, bool):
            raise InputError(f"{options_path}: {name} must be true or false. Received: {value!r}.")
    vocabulary = read_file(path)
    try:
        reader = cls._restore(vocabulary, options)
    except ValueError as error:
        raise InputError(f"{path} is damaged. {error}") from error
    # A changed vocabulary no longer fits the weights trained with it. Options files written by hand have no
    # checksum.
    if saved_sha256 not in (None, _sha256(vocabulary)):
        received = _sha256(vocabulary)
        raise InputError(f"{path} is damaged: SHA-256 must be {saved_sha256}. Received: {received}.")
    return reader


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
