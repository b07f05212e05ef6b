"""Training pairs that do not fit into memory: held-out pairs, a sample, and a cache of token ids.

The texts are read twice: to draw the sample and to tokenize. The results are cached in a directory named
by the checksums of the files, so that a second run reads no text.
"""

import dataclasses
import hashlib
import heapq
import itertools
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from keras_transformer._files import Checksums, errors_named, open_for_reading, read_table, write_file
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import InputError
from keras_transformer.runs.kind import ProgressBar, Readers
from keras_transformer.runs.translation_options import TranslationConfig, _PairsSection
from keras_transformer.types import Pair

# A vocabulary of 500,000 texts takes 5 s and 1.4 GB; more texts change only its rarest entries.
_MAX_SAMPLE = 150_000
# Translating 5 % of millions of pairs would take longer than training an epoch.
_MAX_HELD_OUT = 5_000
_FILE = "corpus.json"

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _LargeCorpus(Sequence[Pair]):
    """Training pairs on disk. As a sequence, the sample from which the vocabularies are made."""

    texts: ParallelText
    directory: Path
    num_examples: int  # pairs with text on both sides, without the held-out pairs
    held_out: list[Pair]
    sample: list[Pair]

    def __len__(self) -> int:
        return len(self.sample)

    def __getitem__(self, index: Any) -> Any:
        return self.sample[index]

    @property
    def fingerprint(self) -> str:
        """Checksum of the files and of what was drawn from them."""
        return self.directory.name

    def pairs(self) -> Iterator[Pair]:
        """Yield the training pairs. All pairs of a held-out source are held out."""
        sources = {source for source, _ in self.held_out}
        return (pair for pair in self.texts if pair[0] not in sources)

    def encode(
        self, tokenizers: Readers, limits: tuple[int, int], progress: ProgressBar | None
    ) -> EncodedPairs:
        """Tokenize all pairs to disk, or load the cached ids."""
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
    """Return the training pairs if they are files with more pairs than a run keeps in memory, else None."""
    data, texts = config.data, _texts(config.data)
    # Whether there is a pair beyond the limit.
    if texts is None or not any(True for _ in itertools.islice(texts, data.max_pairs_in_memory, None)):
        return None
    fraction = data.validation_fraction if data.validation_source is None else 0.0
    _LOGGER.info("more than %s pairs: drawing a sample from the files", f"{data.max_pairs_in_memory:,}")
    decided = {"texts": texts.fingerprint(), "seed": data.seed, "held_out": fraction}
    directory = Path(config.cache_directory, Checksums.of_values(decided)[:32])
    path = directory / _FILE
    if not path.exists():
        values = _draw(texts, fraction, data.seed)
        write_file(path, json.dumps({**values, "checksum": Checksums.of_values(values)}).encode())
    try:
        # Not `read_file`: 150,000 long texts may exceed its size limit.
        with errors_named("read", path), open_for_reading(path) as file:
            values = read_table(file.read(), path, checksum=True)
    except InputError as error:
        raise InputError(f"{error} Remove {directory} to make it again.") from error
    held_out, sample = ([(source, target) for source, target in values[n]] for n in ("held_out", "sample"))
    return _LargeCorpus(texts, directory, values["num_pairs"], held_out, sample)


def _texts(data: _PairsSection) -> ParallelText | None:
    # Files that cannot be read twice, such as pipes, are read into memory; so are invalid ones, which fail
    # there.
    with suppress(InputError):
        if data.source is not None and data.target is not None:
            return ParallelText(data.source, data.target)
        if data.pairs is not None and data.pairs != "dates" and not data.pairs.startswith("tfds:"):
            return ParallelText(data.pairs)
    return None


def _draw(texts: ParallelText, fraction: float, seed: int) -> dict[str, object]:
    """Read all pairs; draw the held-out pairs and the sample by a hash of their sources."""
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
    # In file order, so that a sample of all pairs equals the pairs read into memory.
    sample = sorted(lowest[num_held_out : num_held_out + _MAX_SAMPLE], key=lambda ranked: ranked[1])
    return {
        "num_pairs": num_pairs - num_held_out,
        "held_out": [list(pair) for *_, pair in lowest[:num_held_out]],
        "sample": [list(pair) for *_, pair in sample],
    }


def _where_sources_end(ranks: list[bytes], wanted: int) -> int:
    """Return how many pairs to hold out: whole sources, at most `wanted` pairs, but at least one source."""
    ends = [number for number in range(1, len(ranks)) if ranks[number] != ranks[number - 1]]
    if wanted and not ends:
        raise InputError(f"No pair is left to train on. Received: {len(ranks)} pairs of one source.")
    return max((end for end in ends if end <= wanted), default=ends[0]) if wanted else 0


def _rank(source: str, seed: int) -> bytes:
    key = seed.to_bytes(4, "big")
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
