"""Chunks of token ids on the disk, so that a corpus is tokenized once."""

import json
import logging
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

_DESCRIPTION = "cache.json"
_SIDES = ("source", "target")

_LOGGER = logging.getLogger(__name__)


class CachedChunks:
    """Writes chunks to the disk, unless they are there already, and reads them in each iteration.

    The directory gets its name when all chunks are there; a process that is stopped before leaves one whose
    name begins with `.partial-`, which the next replaces.

    Args:
        chunks: what is written.
        directory: of the cache; made if absent.

    Raises:
        InputError: the directory was written with other tokenizers, limits or chunks, or is damaged; it
            cannot be written; or something is wrong with the pairs.
    """

    def __init__(self, chunks: EncodedChunks, directory: Path) -> None:
        self._directory = directory
        if not directory.exists():
            _write(chunks, directory)
        self._num_chunks = _check_description(directory, chunks.description)

    def __iter__(self) -> Iterator[EncodedPairs]:
        """Give the chunks.

        Raises:
            InputError: a file cannot be read.
        """
        return (_read(self._directory / _name(number)) for number in range(self._num_chunks))


def _write(chunks: EncodedChunks, directory: Path) -> None:
    partial = directory.with_name(f".partial-{directory.name}")
    num_chunks = num_pairs = 0
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for encoded in chunks:
            _save(encoded, partial / _name(num_chunks))
            num_chunks, num_pairs = num_chunks + 1, num_pairs + len(encoded)
            _LOGGER.info("Tokenized %d pairs for %s.", num_pairs, directory)
        description = {**chunks.description, "num_chunks": num_chunks}
        (partial / _DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        partial.rename(directory)
    except OSError as error:
        raise InputError(f"Cannot write {directory}: {error.strerror or error}.") from error


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
    np.savez(path, **arrays)


def _read(path: Path) -> EncodedPairs:
    try:
        # Opened here: of a damaged file NumPy would leave it open.
        with path.open("rb") as file, np.load(file) as arrays:
            sides = {
                side: tf.RaggedTensor.from_row_lengths(arrays[f"{side}_ids"], arrays[f"{side}_lengths"])
                for side in _SIDES
            }
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged: {error}. Remove the directory to make it anew.") from error
    return EncodedPairs(**sides)
