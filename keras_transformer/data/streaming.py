"""Batches of more pairs than memory holds, tokenized while a model trains.

A stream is chunks of what is done in memory: each chunk is planned in Python as a whole corpus is, and
TensorFlow gets finished batches.
"""

import itertools
import json
import logging
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer.arguments import check_positive
from keras_transformer.data.batching import _check_budget, _EpochOrder, _plan_batches
from keras_transformer.data.encoding import EncodedPairs, _check_length_limits, _report_dropped
from keras_transformer.data.pairs import _has_text, _is_pair, _report_empty
from keras_transformer.errors import InputError
from keras_transformer.files import _as_path, atomic_directory, errors_named, read_table, write_file
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.types import Pair

PairSource: TypeAlias = Iterable[Pair] | Callable[[], Iterable[Pair]] | tf.data.Dataset

_ROWS = tf.RaggedTensorSpec([None, None], tf.int32)
_DESCRIPTION = "cache.json"
_name = "chunk-{:06}.npz".format
_SIDES = ("source", "target")

# What NumPy raises for a file that is cut or changed.
_DAMAGES = (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)

_LOGGER = logging.getLogger(__name__)


class _EncodedChunks:
    """Pairs in chunks, tokenized again in each iteration; what is left out is logged in the first."""

    def __init__(
        self,
        pairs: PairSource,
        tokenizers: tuple[Tokenizer, Tokenizer],
        limits: tuple[int, int],
        chunk_size: int | None,
    ) -> None:
        _check_length_limits(*limits)
        if chunk_size is not None:
            check_positive(chunk_size=chunk_size)
        if isinstance(pairs, Iterator):
            raise TypeError(
                "`pairs` must give the pairs again for each epoch: a function that returns a generator, a "
                f"`tf.data.Dataset` or a list. Received: an iterator of class {type(pairs).__name__}."
            )
        self._pairs, self._tokenizers, self._limits = pairs, tokenizers, limits
        self._chunk_size = chunk_size
        self._is_first = True

    def description(self) -> dict[str, object]:
        """Return all that decides the chunks, but for the texts."""
        source, target = (tokenizer.fingerprint() for tokenizer in self._tokenizers)
        return {
            "source_tokenizer": source,
            "target_tokenizer": target,
            "max_source_length": self._limits[0],
            "max_target_length": self._limits[1],
            "chunk_size": self._chunk_size,
        }

    def __iter__(self) -> Iterator[EncodedPairs]:
        """Yield the chunks that have pairs; raise InputError if there are no pairs, or none fits."""
        counts, is_kept = Counter[str](), Counter[bool]()
        pairs = _with_text(self._pairs() if callable(self._pairs) else self._pairs, is_kept)
        while chunk := list(itertools.islice(pairs, self._chunk_size)):
            encoded = EncodedPairs.encode_fitting(chunk, self._tokenizers, self._limits)
            counts += encoded.counts()
            if len(encoded):
                yield encoded
        if not counts:
            raise InputError("There must be at least one pair with text on both sides. Received: none.")
        if self._is_first:
            _report_empty(is_kept[False], is_kept.total(), "the stream")
        if self._is_first or not counts["kept"]:
            _report_dropped(counts, *self._limits)
        self._is_first = False


def _with_text(pairs: Iterable[Pair], is_kept: Counter[bool]) -> Iterator[Pair]:
    """Leave out pairs with an empty side, as `read_pairs` does, and count both kinds."""
    for row in pairs.as_numpy_iterator() if isinstance(pairs, tf.data.Dataset) else pairs:
        if not _is_pair(row):
            wanted = "Each element must be a pair of texts, source and target."
            raise InputError(f"{wanted} Received: {row!r:.200}.")
        # As text: the white space of bytes is that of ASCII alone.
        source, target = (
            text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in row
        )
        keep = _has_text((source, target))
        is_kept[keep] += 1
        if keep:
            yield source, target


def _stream_batches(
    chunks: _EncodedChunks,
    boundaries: Sequence[int],
    tokens_per_batch: int,
    order: _EpochOrder,
    cache: str | Path | None,
) -> tf.data.Dataset:
    """Make a dataset of source and target token ids, int32 (b, ragged) each; a cache makes its size known."""
    _check_budget(boundaries[-1], tokens_per_batch)
    paths = None if cache is None else _cache(chunks, _as_path(cache))
    epochs = itertools.count(order.first_epoch)

    def epoch_batches() -> Iterator[tuple[tf.RaggedTensor, tf.RaggedTensor]]:
        epoch_seed = tf.constant([order.seed, next(epochs)], tf.int64)
        for number, encoded in enumerate(chunks if paths is None else map(_read, paths)):
            plan = _plan_batches(encoded, boundaries, tokens_per_batch)
            chunk_seed = tf.random.experimental.stateless_fold_in(epoch_seed, number)
            for indices in plan.shuffled(chunk_seed) if order.shuffle else plan.ordered():
                yield encoded._rows(indices)

    dataset = tf.data.Dataset.from_generator(epoch_batches, output_signature=(_ROWS, _ROWS))
    if paths is None:
        return dataset
    num_batches = sum(len(_plan_batches(chunk, boundaries, tokens_per_batch)) for chunk in map(_read, paths))
    return dataset.apply(tf.data.experimental.assert_cardinality(num_batches))


def _cache(chunks: _EncodedChunks, directory: Path) -> list[Path]:
    """Write the chunks to a directory, unless they are there already, and return their files."""
    # Before training, so that Keras knows the number of batches. Rejected: `Dataset.cache`, which does not
    # know what its files were made of.
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        _write(chunks, directory)
    path, wanted = directory / _DESCRIPTION, chunks.description()
    try:
        found = read_table(path.read_bytes(), path)
        num_chunks = int(found.pop("num_chunks"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged: {error}. Remove the directory to make it again.") from error
    differing = [name for name in wanted if found.get(name) != wanted[name]]
    if differing:
        raise InputError(
            f"{directory} was written with another {', '.join(differing)}. "
            "Remove it, or name another directory."
        )
    return [directory / _name(number) for number in range(num_chunks)]


def _write(chunks: _EncodedChunks, directory: Path) -> None:
    num_chunks = num_pairs = 0
    try:
        with atomic_directory(directory) as partial:
            for encoded in chunks:
                _save(encoded, partial / _name(num_chunks))
                num_chunks, num_pairs = num_chunks + 1, num_pairs + len(encoded)
                _LOGGER.info("Tokenized %d pairs for %s.", num_pairs, directory)
            description = {**chunks.description(), "num_chunks": num_chunks}
            write_file(partial / _DESCRIPTION, (json.dumps(description, indent=2) + "\n").encode())
    except InputError:
        # Several processes may make the same cache, and the first to finish gives it its name.
        if not (directory / _DESCRIPTION).exists():
            raise


def _save(encoded: EncodedPairs, path: Path) -> None:
    arrays = {}
    for side in _SIDES:
        token_ids = getattr(encoded, side)
        arrays[f"{side}_ids"] = token_ids.flat_values.numpy()
        arrays[f"{side}_lengths"] = token_ids.row_lengths().numpy()
    with errors_named("write", path), path.open("wb") as file:
        np.savez(file, **arrays)


def _read(path: Path) -> EncodedPairs:
    try:
        # Opened here: of a damaged file NumPy would leave it open.
        with path.open("rb") as file, np.load(file) as arrays:
            sides = {
                side: tf.RaggedTensor.from_row_lengths(arrays[f"{side}_ids"], arrays[f"{side}_lengths"])
                for side in _SIDES
            }
    except _DAMAGES as error:
        raise InputError(f"{path} is damaged: {error}. Remove the directory to make it again.") from error
    return EncodedPairs(**sides)
