"""Batches of more pairs than memory holds, tokenized while a model trains."""

import itertools
import json
import logging
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import tensorflow as tf

from keras_transformer.data.batches import choose_bucket_boundaries, cut_batches, shuffle_batches
from keras_transformer.data.encoding import (
    EncodedPairs,
    LengthCounts,
    check_length_limits,
    encode_fitting,
    report_dropped,
)
from keras_transformer.data.pairs import Pair, has_text, report_empty
from keras_transformer.data.pipeline import change_rows, plan_batches
from keras_transformer.data.transformations import Transformation, keep_ready, pad_batches, teacher_forcing
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_directory, errors_named, write_file
from keras_transformer.text import Tokenizer

PairSource: TypeAlias = Iterable[Pair] | Callable[[], Iterable[Pair]] | tf.data.Dataset


class Chunks(Protocol):
    """Encoded pairs in chunks, which can be iterated over any number of times."""

    def __iter__(self) -> Iterator[EncodedPairs]: ...


class EncodedChunks:
    """Tokenizes pairs anew in each iteration, and counts those that are too long in the first.

    Args:
        pairs: see `streamed_dataset`.
        source_tokenizer: of the sources.
        target_tokenizer: of the targets.
        max_source_length: most tokens of a source, the end token included.
        max_target_length: most tokens of a target, one special token included.
        chunk_size: pairs of a chunk.

    Raises:
        TypeError: the pairs can be iterated over only once.
        ValueError: a limit is below 2, or the size below 1.
    """

    def __init__(
        self,
        pairs: PairSource,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        max_source_length: int,
        max_target_length: int,
        chunk_size: int,
    ) -> None:
        check_length_limits(max_source_length, max_target_length)
        if chunk_size < 1:
            raise ValueError(f"`chunk_size` must be at least 1. Received: chunk_size={chunk_size}.")
        if isinstance(pairs, Iterator):
            raise TypeError(
                "`pairs` must give the pairs anew for each epoch: a function that returns a generator, a "
                f"`tf.data.Dataset` or a list. Received: an iterator of class {type(pairs).__name__}."
            )
        self._pairs = pairs
        self._tokenizers = (source_tokenizer, target_tokenizer)
        self._limits = (max_source_length, max_target_length)
        self._chunk_size = chunk_size
        self._is_first = True

    @property
    def description(self) -> dict[str, Any]:
        """All that decides the chunks, but for the texts."""
        source, target = (tokenizer.fingerprint() for tokenizer in self._tokenizers)
        return {
            "source_tokenizer": source,
            "target_tokenizer": target,
            "max_source_length": self._limits[0],
            "max_target_length": self._limits[1],
            "chunk_size": self._chunk_size,
        }

    def __iter__(self) -> Iterator[EncodedPairs]:
        """Give the chunks that have pairs; the counts are logged at the end.

        Raises:
            InputError: there are no pairs, or none fits.
        """
        counts, is_kept = LengthCounts(), Counter[bool]()
        pairs = _with_text(self._pairs() if callable(self._pairs) else self._pairs, is_kept)
        while chunk := list(itertools.islice(pairs, self._chunk_size)):
            encoded = encode_fitting(chunk, *self._tokenizers, *self._limits)
            counts += encoded.counts()
            if len(encoded):
                yield encoded
        if counts == LengthCounts():
            raise InputError("There must be at least one pair with text on both sides. Received: none.")
        if self._is_first:
            report_empty(is_kept[False], is_kept.total(), "the stream")
        if self._is_first or not counts.num_kept:
            report_dropped(counts, *self._limits)
        self._is_first = False


def _with_text(pairs: Iterable[Pair], is_kept: Counter[bool]) -> Iterator[Pair]:
    """Leave out pairs of which one side is empty, as `drop_empty_pairs` does, and count both kinds."""
    rows = pairs.as_numpy_iterator() if isinstance(pairs, tf.data.Dataset) else pairs
    for row in rows:
        if not _is_pair(row):
            wanted = "Each element must be a pair of texts, source and target."
            raise InputError(f"{wanted} Received: {row!r:.200}.")
        # As text: the white space of bytes is that of ASCII alone.
        source, target = (
            text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in row
        )
        keep = has_text((source, target))
        is_kept[keep] += 1
        if keep:
            yield source, target


def _is_pair(row: Any) -> bool:
    is_sequence = isinstance(row, tuple | list) and len(row) == 2
    return is_sequence and all(isinstance(text, str | bytes) for text in row)


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
    num_chunks = num_pairs = 0
    try:
        with atomic_directory(directory) as partial:
            for encoded in chunks:
                _save(encoded, partial / _name(num_chunks))
                num_chunks, num_pairs = num_chunks + 1, num_pairs + len(encoded)
                _LOGGER.info("Tokenized %d pairs for %s.", num_pairs, directory)
            description = {**chunks.description, "num_chunks": num_chunks}
            write_file(partial / _DESCRIPTION, (json.dumps(description, indent=2) + "\n").encode())
    except InputError:
        # Several processes may make the same cache, and the first to finish gives it its name.
        if not (directory / _DESCRIPTION).exists():
            raise


def _is_empty(directory: Path) -> bool:
    return directory.is_dir() and not any(directory.iterdir())


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
        raise InputError(f"{path} is damaged: {error}. Remove the directory to make it anew.") from error
    return EncodedPairs(**sides)


_ROWS = tf.RaggedTensorSpec([None, None], tf.int32)


def streamed_dataset(
    pairs: PairSource,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    tokens_per_batch: int = 4096,
    max_source_length: int = 256,
    max_target_length: int = 256,
    chunk_size: int = 65_536,
    shuffle: bool = True,
    seed: int = 0,
    first_epoch: int = 0,
    bucket_boundaries: Sequence[int] | None = None,
    pad_to_bucket_boundary: bool = False,
    noise: Sequence[Transformation] = (),
    cache: str | Path | None = None,
) -> tf.data.Dataset:
    """Makes the dataset that `translation_dataset` makes, of pairs that are not all in memory.

    Pairs are read in chunks, and each chunk is batched by length and shuffled as `encoded_dataset` does it
    with all. Each iteration is an epoch; its order depends on `seed` and its number alone. Without a cache
    the number of batches is not known: Keras then warns at the end of an epoch that its data has ended.

    Args:
        pairs: what gives source and target texts anew for each epoch: a function that returns a generator, a
            `tf.data.Dataset` of two strings (TFDS with `as_supervised=True`), `ParallelText`, or a list.
            Pairs with an empty side are left out.
        source_tokenizer: tokenizer of the sources.
        target_tokenizer: tokenizer of the targets.
        tokens_per_batch: as in `translation_dataset`, like all that is not explained here.
        max_source_length: longer ones are left out; how many is logged at the end of the first epoch.
        max_target_length: likewise.
        chunk_size: pairs that are in memory, and shuffled, together.
        shuffle: whether each epoch draws new batches.
        seed: seed of the shuffling.
        first_epoch: epoch of the first iteration, to go on where an earlier run stopped.
        bucket_boundaries: lengths that part the buckets.
        pad_to_bucket_boundary: pad source and target to the same boundary.
        noise: steps that change token ids.
        cache: directory for the token ids. All pairs are tokenized at once, and only if it is not there
            yet. It notices other tokenizers and limits, but not other texts.

    Returns:
        a dataset of the elements that `translation_dataset` describes.

    Raises:
        TypeError: `pairs` is an iterator, which gives them only once.
        ValueError: a limit, the boundaries, a size or the token budget are out of range.
        InputError: the cache is of other tokenizers or limits, or cannot be written. What is wrong with the
            pairs shows when they are read: without a cache in the iteration, as an error of TensorFlow
            that holds the message.

    Example:
        >>> from keras_transformer.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer(["a", "b"])
        >>> dataset = streamed_dataset(lambda: iter([("ab", "ba"), ("b", "b")]), tokenizer, tokenizer)
        >>> [labels.shape for inputs, labels in dataset.as_numpy_iterator()]
        [(2, 3)]
    """
    encoded_chunks = EncodedChunks(
        pairs,
        source_tokenizer,
        target_tokenizer,
        max_source_length=max_source_length,
        max_target_length=max_target_length,
        chunk_size=chunk_size,
    )
    chunks: Chunks = encoded_chunks if cache is None else CachedChunks(encoded_chunks, Path(cache))
    longest = max(max_source_length, max_target_length)
    boundaries = choose_bucket_boundaries(bucket_boundaries, longest, coarse=pad_to_bucket_boundary)
    cut_batches(np.asarray(boundaries[-1:]), tokens_per_batch)  # the longest pair must fit
    epochs = itertools.count(first_epoch)

    def epoch_batches() -> Iterator[tuple[tf.RaggedTensor, tf.RaggedTensor]]:
        """Give the batches of the next epoch."""
        epoch_seed = [seed, next(epochs)] if shuffle else None
        for number, encoded in enumerate(chunks):
            for positions in _positions(encoded, boundaries, tokens_per_batch, epoch_seed, number):
                yield tf.gather(encoded.source, positions), tf.gather(encoded.target, positions)

    token_ids = tf.data.Dataset.from_generator(epoch_batches, output_signature=(_ROWS, _ROWS))
    dataset = (
        token_ids.apply(change_rows(noise, shuffle, seed))
        .apply(teacher_forcing)
        .apply(pad_batches(boundaries if pad_to_bucket_boundary else None))
    )
    if cache is not None:
        num_batches = sum(len(plan_batches(chunk, boundaries, tokens_per_batch)[1]) - 1 for chunk in chunks)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(num_batches))
    return keep_ready(dataset)


def _positions(
    encoded: EncodedPairs,
    boundaries: Sequence[int],
    tokens_per_batch: int,
    epoch_seed: list[int] | None,
    number: int,
) -> tf.RaggedTensor:
    """Cut a chunk into batches; gives positions of its pairs, int64 (number of batches, ragged)."""
    keys, splits = plan_batches(encoded, boundaries, tokens_per_batch)
    if epoch_seed is None:
        return tf.RaggedTensor.from_row_splits(np.argsort(keys, kind="stable"), splits)
    chunk_seed = tf.random.experimental.stateless_fold_in(tf.constant(epoch_seed, tf.int64), number)
    return shuffle_batches(tf.constant(keys), tf.constant(splits), chunk_seed)
