"""The base of all that turns a user's sources into numbers and is saved with a model."""

import abc
import contextlib
import hashlib
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Self

import tensorflow as tf

from keras_transformer._files import as_path, read_file, read_table, write_file
from keras_transformer.errors import InputError

_KINDS: dict[str, type["Reader"]] = {}


class Reader(tf.Module, abc.ABC):
    """What turns sources into numbers in TensorFlow operations: a tokenizer, or the statistics of frames.

    A reader is a `tf.Module`: assigned to an attribute of an exported module, it travels inside the
    SavedModel with its files. It is saved as two files, one of options and one of what was learned from data.
    """

    kind: ClassVar[str]
    """The name in the options file that `load_reader` finds the class by."""
    options_file: ClassVar[str] = "tokenizer.json"
    vocabulary_file: ClassVar[str]
    """The file of what was learned from data."""
    option_names: ClassVar[tuple[str, ...]] = ()
    needs_tensorflow_text: bool = False
    """Whether a program that loads an export must import `tensorflow_text` first."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "kind"):
            _KINDS[cls.kind] = cls

    @property
    def options(self) -> dict[str, bool]:
        """The constructor's options by name, without what was learned from data."""
        return {name: getattr(self, name) for name in self.option_names}

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that decides which numbers a source gets, in 64 hexadecimal digits."""
        options = json.dumps({"kind": self.kind, **self.options}, sort_keys=True)
        return _sha256(options.encode() + b"\n" + self._vocabulary_bytes())

    def save(self, directory: str | Path) -> None:
        """Write the reader, to be read by `load_reader`, a tokenizer also by `load_tokenizer`.

        Args:
            directory: created if absent. Each file is written under another name and renamed.

        Raises:
            InputError: a file cannot be written.
        """
        directory, vocabulary = as_path(directory), self._vocabulary_bytes()
        saved = {"kind": self.kind, **self.options, "vocabulary_sha256": _sha256(vocabulary)}
        if not (module := type(self).__module__).startswith(f"{__package__}."):
            saved["module"] = module  # of another room, for `load_reader`
        write_file(directory / self.vocabulary_file, vocabulary)
        # Last: a directory with this file is a complete reader.
        write_file(directory / self.options_file, (json.dumps(saved, indent=2) + "\n").encode())

    @classmethod
    def asset_files(cls, directory: str | Path) -> list[Path]:
        """Return the files in a directory written by `save` that are fit for `tf.saved_model.Asset`."""
        return [Path(directory) / cls.vocabulary_file]

    def __reduce__(self) -> tuple[Callable[..., "Reader"], tuple[object, ...]]:
        """Pickle and copy by what was learned, because TensorFlow's tables allow neither."""
        return type(self)._restore, (self._vocabulary_bytes(), self.options)

    @abc.abstractmethod
    def _vocabulary_bytes(self) -> bytes:
        """Return the content of the vocabulary file."""

    @classmethod
    @abc.abstractmethod
    def _restore(cls, vocabulary: bytes, options: dict[str, bool]) -> Self:
        """Make a reader from the content of its vocabulary file; raise ValueError if it is damaged."""


def load_reader(directory: str | Path) -> Reader:
    """Read a reader of any kind: a tokenizer, or the statistics of frames.

    Args:
        directory: where `Reader.save` wrote.

    Returns:
        The reader.

    Raises:
        InputError: a file is missing or damaged, or the kind is unknown; the message names the file.
    """
    options_path = as_path(directory) / Reader.options_file
    options = read_table(read_file(options_path), options_path)
    kind, saved_sha256 = options.pop("kind", None), options.pop("vocabulary_sha256", None)
    module = str(options.pop("module", ""))
    # As Keras does, but only of this package.
    if kind not in [*_KINDS] and module.startswith("keras_transformer."):
        with contextlib.suppress(ImportError):  # the kind stays unknown
            importlib.import_module(module)
    if not isinstance(kind, str) or kind not in _KINDS:
        kinds = tuple(sorted(_KINDS))
        raise InputError(f"{options_path}: kind must be one of {kinds}. Received: {kind!r}.")
    cls = _KINDS[kind]
    path = Path(directory) / cls.vocabulary_file
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
    # A changed vocabulary no longer fits the weights that were trained with it. Options that
    # somebody has written by hand have no checksum.
    if saved_sha256 not in (None, _sha256(vocabulary)):
        received = _sha256(vocabulary)
        raise InputError(f"{path} is damaged: SHA-256 must be {saved_sha256}. Received: {received}.")
    return reader


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
