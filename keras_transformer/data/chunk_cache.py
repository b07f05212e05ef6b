"""Chunks of token ids on the disk, so that a corpus is tokenized once."""

import contextlib
import json
import logging
import os
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.data.chunks import EncodedChunks
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.errors import InputError
from keras_transformer.files import remove_stale, write_file

_DESCRIPTION = "cache.json"
_SIDES = ("source", "target")

# What NumPy raises for a file that is cut or changed.
_DAMAGES = (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)

_LOGGER = logging.getLogger(__name__)


class CachedChunks:
    """Writes chunks to the disk, unless they are there already, and reads them in each iteration.

    The directory gets its name when all chunks are there; a process that is killed before leaves one whose
    name begins with `.partial-`, which another removes an hour later. Several may make one cache at once.

    Args:
        chunks: what is written.
        directory: of the cache; made if absent.

    Raises:
        InputError: the directory was written with other tokenizers, limits or chunks, or is damaged; it
            cannot be written; or something is wrong with the pairs.
    """

    def __init__(self, chunks: EncodedChunks, directory: Path) -> None:
        self._directory = directory
        if not directory.exists() or _is_empty(directory):
            _write(chunks, directory)
        self._num_chunks = _check_description(directory, chunks.description)

    def __iter__(self) -> Iterator[EncodedPairs]:
        """Give the chunks.

        Raises:
            InputError: a file cannot be read.
        """
        return (_read(self._directory / _name(number)) for number in range(self._num_chunks))


def _write(chunks: EncodedChunks, directory: Path) -> None:
    # Of this process alone: several may make the same cache, and the first to end gives it its name.
    partial = directory.with_name(f"{_partial(directory)}{secrets.token_hex(4)}")
    num_chunks = num_pairs = 0
    try:
        with _writing(directory):
            for left in directory.parent.glob(f"{_partial(directory)}*"):
                remove_stale(left)
            partial.mkdir(parents=True)
        for encoded in chunks:
            with _writing(directory):
                _save(encoded, partial / _name(num_chunks))
            num_chunks, num_pairs = num_chunks + 1, num_pairs + len(encoded)
            _LOGGER.info("Tokenized %d pairs for %s.", num_pairs, directory)
        description = {**chunks.description, "num_chunks": num_chunks}
        write_file(partial / _DESCRIPTION, (json.dumps(description, indent=2) + "\n").encode())
        with _writing(directory):
            _rename(partial, directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _is_empty(directory: Path) -> bool:
    return directory.is_dir() and not any(directory.iterdir())


def _partial(directory: Path) -> str:
    return f".partial-{directory.name}."


@contextlib.contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Say what could not be written; errors of the texts are not these."""
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot write {directory}: {error.strerror or error}.") from error


def _rename(partial: Path, directory: Path) -> None:
    """Give the cache its name, unless another process was first."""
    try:
        partial.rename(directory)
    except OSError:
        if not (directory / _DESCRIPTION).exists():
            raise


def _check_description(directory: Path, wanted: dict[str, Any]) -> int:
    """Compare what the directory holds with what is wanted; gives the number of chunks."""
    path = directory / _DESCRIPTION
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        num_chunks = int(found.pop("num_chunks"))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(f"{path} is damaged: {error}. Remove the directory to make it anew.") from error
    differing = [name for name in wanted if found.get(name) != wanted[name]]
    if differing:
        raise InputError(
            f"{directory} was written with another {', '.join(differing)}. "
            "Remove it, or name another directory."
        )
    return num_chunks


def _name(number: int) -> str:
    return f"chunk-{number:06}.npz"


def _save(encoded: EncodedPairs, path: Path) -> None:
    arrays = {}
    for side in _SIDES:
        token_ids = getattr(encoded, side)
        arrays[f"{side}_ids"] = token_ids.flat_values.numpy()
        arrays[f"{side}_lengths"] = token_ids.row_lengths().numpy()
    with path.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())  # the name of the directory promises whole files, also after a power failure


def _read(path: Path) -> EncodedPairs:
    try:
        # Opened here: of a damaged file NumPy would leave it open.
        with path.open("rb") as file, np.load(file) as arrays:
            sides = {
                side: tf.RaggedTensor.from_row_lengths(arrays[f"{side}_ids"], arrays[f"{side}_lengths"])
                for side in _SIDES
            }
    except _DAMAGES as error:
        raise InputError(f"{path} is damaged: {error}. Remove the directory to make it anew.") from error
    return EncodedPairs(**sides)
