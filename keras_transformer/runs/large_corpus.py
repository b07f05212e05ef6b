"""Training pairs that are more than memory holds: what is held out, a sample, and a cache of token ids.

The texts are read twice, to draw and to tokenize. What is made of them stays in a directory named by their
checksums, so that a run whose cache is there reads no text.
"""

import hashlib
import heapq
import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from keras_transformer._files import Checksums, errors_named, open_for_reading, read_table, write_file
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import InputError
from keras_transformer.runs.kind import Progress, Readers
from keras_transformer.runs.translation_options import TranslationConfig, _PairsSection
from keras_transformer.types import Pair

# A vocabulary of 500,000 texts takes 5 s and 1.4 GB, and more texts change its rarest entries alone.
_MAX_SAMPLE = 150_000
# Held out of millions, 5 % would take longer to translate than an epoch to train.
_MAX_HELD_OUT = 5_000
_FILE = "corpus.json"

_LOGGER = logging.getLogger(__name__)


class _LargeCorpus(NamedTuple):
    texts: ParallelText
    directory: Path
    num_examples: int  # pairs with text on both sides, but for those held out
    held_out: list[Pair]
    sample: list[Pair]

    @property
    def fingerprint(self) -> str:
        return self.directory.name

    def pairs(self) -> Iterator[Pair]:
        """Yield the training pairs; a source that is held out is so with all its targets."""
        sources = {source for source, _ in self.held_out}
        return (pair for pair in self.texts if pair[0] not in sources)

    def encode(self, tokenizers: Readers, limits: tuple[int, int], progress: Progress | None) -> EncodedPairs:
        """Tokenize all pairs to the disk, or find their ids there."""
        decided = {"limits": limits, "tokenizers": [each.fingerprint() for each in tokenizers]}
        directory = self.directory / f"ids-{Checksums.of_values(decided)[:16]}"
        is_made, (source, target) = directory.exists(), tokenizers
        shown = progress(self.num_examples, "token ids") if progress and not is_made else nullcontext()
        with shown as advance:
            return EncodedPairs.cached(
                self.pairs,
                *(source, target, directory),
                max_source_length=limits[0],
                max_target_length=limits[1],
                progress=advance,
            )


def _large_corpus(config: TranslationConfig) -> _LargeCorpus | None:
    """Return the training pairs of a run if they are files of more than it keeps in memory."""
    data, texts = config.data, _texts(config.data)
    # The first that is too many, if there is one.
    if texts is None or not any(True for _ in itertools.islice(texts, data.max_pairs_in_memory, None)):
        return None
    fraction = data.validation_fraction if data.validation_source is None else 0.0
    _LOGGER.info("more than %s pairs: reading their files", f"{data.max_pairs_in_memory:,}")
    checksums = [Checksums.of(path) for path in texts.files]
    is_parallel = data.source is not None
    decided: dict[str, object] = {
        "files": checksums,
        "parallel": is_parallel,
        "seed": data.seed,
        "held_out": fraction,
    }
    if any(texts.columns):
        decided["columns"] = texts.columns
    directory = Path(config.cache_directory, Checksums.of_values(decided)[:32])
    path = directory / _FILE
    if not path.exists():
        values = _draw(texts, fraction, data.seed)
        write_file(path, json.dumps({**values, "checksum": Checksums.of_values(values)}).encode())
    try:
        # Not `read_file`: 150,000 long texts may be more than it reads.
        with errors_named("read", path), open_for_reading(path) as file:
            values = read_table(file.read(), path, checksum=True)
    except InputError as error:
        raise InputError(f"{error} Remove {directory} to make it again.") from error
    held_out, sample = ([(source, target) for source, target in values[n]] for n in ("held_out", "sample"))
    return _LargeCorpus(texts, directory, values["num_pairs"], held_out, sample)


def _texts(data: _PairsSection) -> ParallelText | None:
    # What cannot be read twice, such as a pipe, is read into memory; so is what is refused there.
    with suppress(InputError):
        if data.source is not None and data.target is not None:
            return ParallelText(data.source, data.target)
        if data.pairs is not None and data.pairs != "dates" and not data.pairs.startswith("tfds:"):
            return ParallelText(data.pairs)
    return None


def _draw(texts: ParallelText, fraction: float, seed: int) -> dict[str, object]:
    """Read all pairs, and draw what is held out and a sample of the others by a hash of their source."""
    num_pairs = 0

    def ranked() -> Iterator[tuple[bytes, int, Pair]]:
        nonlocal num_pairs
        for number, pair in enumerate(texts, start=1):
            if number % 1_000_000 == 0:
                _LOGGER.info("read %s pairs", f"{number:,}")
            if pair[0].strip() and pair[1].strip():
                num_pairs += 1
                yield _rank(pair[0], seed), num_pairs, pair

    lowest = heapq.nsmallest(_MAX_HELD_OUT + _MAX_SAMPLE, ranked())
    if not lowest:
        raise InputError(f"No pair of {texts.files[0]} has text on both sides. Received: 0 pairs.")
    wanted = max(1, min(round(num_pairs * fraction), _MAX_HELD_OUT)) if fraction else 0
    num_held_out = _where_sources_end([rank for rank, *_ in lowest], wanted)
    # In the order of the files, so that a sample of all pairs is those in memory.
    sample = sorted(lowest[num_held_out : num_held_out + _MAX_SAMPLE], key=lambda ranked: ranked[1])
    return {
        "num_pairs": num_pairs - num_held_out,
        "held_out": [list(pair) for *_, pair in lowest[:num_held_out]],
        "sample": [list(pair) for *_, pair in sample],
    }


def _where_sources_end(ranks: list[bytes], wanted: int) -> int:
    """Return how many to hold out, at most as wanted if that parts no source, whose pairs are on one side."""
    ends = [number for number in range(1, len(ranks)) if ranks[number] != ranks[number - 1]]
    if wanted and not ends:
        raise InputError(f"No pair is left to train on. Received: {len(ranks)} pairs of one source.")
    return max((end for end in ends if end <= wanted), default=ends[0]) if wanted else 0


def _rank(source: str, seed: int) -> bytes:
    key = seed.to_bytes(4, "big")
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
