"""On-disk cache of token ids, for more pairs than fit into memory."""

import contextlib
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer._files import (
    Checksums,
    atomic_directory,
    errors_named,
    read_file,
    read_table,
    write_file,
)
from keras_transformer.errors import InputError

_SIDES = ("source", "target")
_DESCRIPTION = "cache.json"
_LENGTH = np.dtype("<u4")
_Values: TypeAlias = dict[str, Any]
_Part: TypeAlias = tuple[tf.RaggedTensor, tf.RaggedTensor, Counter[str]]

_LOGGER = logging.getLogger(__name__)


class _StoredRows:
    """Rows of token ids in a file, with the methods of `tf.RaggedTensor` that batching uses."""

    def __init__(self, path: Path, id_type: np.dtype, lengths: np.ndarray) -> None:
        self._path, self._id_type = path, id_type
        # Start of each of n rows, and the end of the last, (n + 1,). In 4 bytes each if they suffice.
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        self._starts = starts if starts[-1] >= 2**32 else starts.astype(np.uint32)

    def nrows(self) -> int:
        return len(self._starts) - 1

    def row_lengths(self) -> np.ndarray:
        return np.diff(self._starts).astype(np.int32)

    def gather(self, indices: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
        if isinstance(indices, tf.RaggedTensor):
            return indices.with_values(self.gather(indices.values))
        values, lengths = tf.numpy_function(self._read, [indices], (tf.int32, tf.int64))
        return tf.RaggedTensor.from_row_lengths(
            tf.ensure_shape(values, [None]), tf.ensure_shape(lengths, [None]), validate=False
        )

    def _read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts = self._starts[indices].astype(np.int64)
        lengths = self._starts[indices + 1] - starts
        # Offset and size of each row in bytes: (b, 2)
        spans = np.stack([starts, lengths], axis=-1) * self._id_type.itemsize
        # Not memory-mapped: mapped pages count as memory of the process, 0.9 GB for 10 million pairs.
        with self._path.open("rb", buffering=0) as file:
            rows = [os.pread(file.fileno(), size, start) for start, size in spans.tolist()]
        return np.frombuffer(b"".join(rows), self._id_type).astype(np.int32), lengths


def _id_type(vocabulary_size: int) -> np.dtype:
    return np.dtype("<u2" if vocabulary_size <= 2**16 else "<i4")


def _write_cache(
    directory: Path, parts: Iterable[_Part], description: _Values, progress: Callable[[int], None] | None
) -> None:
    """Write all rows to a directory, which appears only when it is complete."""
    counts = Counter[str]()
    types = [_id_type(size) for size in description["vocabulary_sizes"]]
    try:
        with atomic_directory(directory) as partial, contextlib.ExitStack() as stack:
            with errors_named("write", directory):
                files = [
                    [
                        stack.enter_context((partial / f"{side}.{kind}").open("wb"))
                        for kind in ("ids", "lengths")
                    ]
                    for side in _SIDES
                ]
            for *rows, part_counts in parts:
                counts += part_counts
                for token_ids, id_type, (id_file, length_file) in zip(rows, types, files, strict=True):
                    with errors_named("write", directory):
                        id_file.write(token_ids.flat_values.numpy().astype(id_type).tobytes())
                        length_file.write(token_ids.row_lengths().numpy().astype(_LENGTH).tobytes())
                if progress is not None:
                    progress(part_counts["kept"] + part_counts["dropped"])
            stack.close()
            text = json.dumps({**description, "counts": counts}, indent=2)
            write_file(partial / _DESCRIPTION, f"{text}\n".encode())
            Checksums.write(partial)
    except InputError:
        # Several processes may write the same cache. The first to finish creates the directory.
        if not (directory / _DESCRIPTION).exists():
            raise
    _LOGGER.info("wrote the token ids of %s pairs to %s", f"{counts['kept']:,}", directory)


def _read_cache(directory: Path, wanted: _Values) -> _Values:
    """Return the fields of `EncodedPairs`; raise InputError if the cache is damaged or does not match."""
    path = directory / _DESCRIPTION
    try:
        found = read_table(read_file(path), path)
        # The corpus is unknown if it was given, or is given, as a stream.
        is_known = None not in (found.get("corpus"), wanted["corpus"])
        compared = [name for name in wanted if name != "corpus" or is_known]
        if differing := [name for name in compared if found.get(name) != wanted[name]]:
            raise InputError(f"{directory} was written with another {', '.join(differing)}.")
        # Checking also loads the files into the page cache of the system.
        Checksums.check(directory)
        counts = found["counts"]
        rows = {
            side: _stored_rows(directory / side, _id_type(size), counts.get("kept", 0))
            for side, size in zip(_SIDES, wanted["vocabulary_sizes"], strict=True)
        }
    except (InputError, KeyError) as error:
        raise InputError(f"{error} Remove the directory to make it again, or name another one.") from error
    dropped = {"num_dropped": "dropped", "num_dropped_source": "sources", "num_dropped_target": "targets"}
    return {**rows, **{name: counts.get(key, 0) for name, key in dropped.items()}}


def _stored_rows(path: Path, id_type: np.dtype, num_rows: int) -> _StoredRows:
    ids = path.with_suffix(".ids")
    with errors_named("read", path):
        lengths = np.fromfile(path.with_suffix(".lengths"), _LENGTH)
        size = ids.stat().st_size
    if len(lengths) != num_rows or size != int(lengths.sum(dtype=np.int64)) * id_type.itemsize:
        raise InputError(
            f"{path} must hold {num_rows:,} rows. Received: {len(lengths):,} rows, {size:,} bytes of ids."
        )
    return _StoredRows(ids, id_type, lengths)
