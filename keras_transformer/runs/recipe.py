"""What suits a corpus where nothing else is said: its tokens, its batches, and how long a model trains on it.

A run and a Keras script choose by the same rules, each of which stands here once.
"""

import dataclasses
import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transformer._arguments import as_pairs
from keras_transformer.data import EncodedFrames, FrameNormalizer
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.models.config import PRESETS
from keras_transformer.text.lookup import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.text.reader import Reader
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.training.schedules import InverseSquareRootSchedule
from keras_transformer.types import SPECIAL_TOKENS, Pair

_LARGEST = 8000  # vocabulary, if not given
_SHORTEST_BATCH = 512  # tokens
_MANY_LETTERS = 64  # of a text on average, beyond which characters make sequences too long

_LOGGER = logging.getLogger(__name__)


class _Sizes(NamedTuple):
    tokens_per_batch: int
    epochs: int
    warmup_steps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What `keras-transformer train` chooses for a corpus, for a script of one's own.

    Example:
        ```python
        recipe = kt.runs.Recipe.of(training)
        size = recipe.tokenizer.vocabulary_size
        model = kt.Transformer.from_preset("tiny", size, size, dropout=recipe.dropout)
        kt.training.compile_model(model, recipe.learning_rate)
        ```
    """

    tokenizer: Tokenizer
    """Of both sides, or of the targets of frames: subwords, fewer for a small corpus; for short texts of
    digits, codes or single words characters."""
    source_reader: Reader
    """The tokenizer, or the `FrameNormalizer` of frames."""
    tokens_per_batch: int
    """For `data.translation_dataset`: from 512 to 4096."""
    epochs: int
    """From 10 to 100, for 3000 updates at least."""
    warmup_steps: int
    """A fifth of the updates, at most 1000."""
    dropout: float
    """For the preset `tiny`."""

    @classmethod
    def of(cls, pairs: Sequence[Pair] | Sequence[tuple[np.ndarray, str]]) -> "Recipe":
        """Choose for some pairs, and train their tokenizer.

        Args:
            pairs: Sources and targets to train on, without those that are held out. Sources may be frames,
                arrays `(s, w)`.

        Returns:
            The recipe.

        Raises:
            TypeError: If a pair is not two strings.
            InputError: If there are no pairs, or they hold no text.
        """
        first = next(iter(pairs), ()) if isinstance(pairs, Sequence) else ()
        reads_frames = isinstance(first, tuple | list) and hasattr(next(iter(first), None), "shape")
        several: list[Any] = [*pairs] if reads_frames else as_pairs(pairs=pairs)
        sources, targets = [source for source, _ in several], [target for _, target in several]
        texts = targets if reads_frames else [*sources, *targets]
        tokenizer = train_tokenizer(texts, choose_kind(None, texts[: len(targets)], targets))
        reader: Reader = tokenizer
        if reads_frames:
            reader = normalizer = FrameNormalizer.adapt(sources)
            encoded: EncodedPairs = EncodedFrames.of(several, normalizer, tokenizer)
        else:
            encoded = EncodedPairs.encode(several, tokenizer, tokenizer)
        lengths = encoded.lengths()
        sizes = choose_sizes(int(lengths.max(axis=1).sum()), holds=int(lengths.max()))
        dropout = choose_dropout(PRESETS["tiny"].dropout, (reader, tokenizer))
        return cls(tokenizer=tokenizer, source_reader=reader, **sizes._asdict(), dropout=dropout)

    @property
    def learning_rate(self) -> InverseSquareRootSchedule:
        """A rise to 0.001 during the warm-up, and the fall after it."""
        return InverseSquareRootSchedule(1e-3, self.warmup_steps)


def choose_kind(kind: str | None, sources: list[str], targets: list[str]) -> str:
    """Return the kind of tokens, characters where none is given and they suit; log why."""
    # Of 3,000 numbers in words and digits, subwords leave half of a number unseen: 12.7 % exact after as many
    # updates as give characters 90 %.
    reason = _reason_for_characters(sources, targets)
    if kind is None and reason:
        _LOGGER.info("chosen for these texts: characters, since %s; `subword` is the other kind", reason)
        return "character"
    if kind == "subword" and reason:
        _LOGGER.info("characters may suit these texts better, since %s: kind=character", reason)
    return kind or "subword"


def _reason_for_characters(sources: list[str], targets: list[str]) -> str:
    """Say why characters suit a corpus; empty if they do not."""
    sides = {"sources": sources, "targets": targets}
    if any(sum(map(len, texts)) > _MANY_LETTERS * len(texts) for texts in sides.values()):
        return ""
    for name, texts in sides.items():
        characters = "".join("".join(text.split()) for text in texts)
        if sum(map(str.isdigit, characters)) * 4 >= len(characters) > 0:
            return f"{name} are digits and codes"
    # On one side alone they may be sentences of a language without spaces.
    words = [sum(len(text.split()) == 1 for text in texts) >= 0.9 * len(texts) for texts in sides.values()]
    return "they are single words" if all(words) else ""


def train_tokenizer(
    texts: list[str],
    kind: str,
    size: int | None = None,
    *,
    lowercase: bool = False,
    normalize_spaces: bool = False,
) -> Tokenizer:
    """Train a tokenizer of a kind, of a size that suits the texts where none is given."""
    largest = size or _LARGEST
    if kind == "subword":
        # In 8,000 entries for 2,470 numbers and their names each number is one: 0 % exact, with 192 entries
        # 60 %. No fewer than letters need.
        fitting = max(sum(map(len, texts)) // 400, 2 * len(set().union(*texts)) + len(SPECIAL_TOKENS))
        if not size and fitting < largest:
            largest = fitting
            _LOGGER.info("chosen for these texts: a vocabulary of %d", largest)
        return SubwordTokenizer.train(texts, largest, lowercase=lowercase)
    if kind == "whitespace":
        return WhitespaceTokenizer.train(texts, lowercase=lowercase, max_vocabulary_size=largest)
    return CharacterTokenizer.train(
        texts, lowercase=lowercase, normalize_spaces=normalize_spaces, max_vocabulary_size=largest
    )


def choose_sizes(
    num_tokens: int,
    *,
    holds: int,
    tokens_per_batch: int | None = None,
    epochs: int | None = None,
    warmup_steps: int | None = None,
    gradient_accumulation_steps: int = 1,
) -> _Sizes:
    """Choose what is not given, so that a small corpus gets updates enough, most after the warm-up."""
    # 2,470 pairs in ten epochs of 4,096 tokens a batch got 40 updates in a warm-up of 1,000: all empty.
    given = _Sizes(tokens_per_batch or 0, epochs or 0, warmup_steps or 0)
    tokens_per_batch = given.tokens_per_batch or max(min(num_tokens // 100, 4096), _SHORTEST_BATCH, holds)
    updates_per_epoch = max(num_tokens / tokens_per_batch, 1) / gradient_accumulation_steps
    epochs = given.epochs or min(max(math.ceil(3000 / updates_per_epoch), 10), 100)
    warmup_steps = given.warmup_steps or min(max(int(epochs * updates_per_epoch / 5), 1), 1000)
    sizes = _Sizes(tokens_per_batch, epochs, warmup_steps)
    chosen = [f"{name}={value}" for name, value in sizes._asdict().items() if not getattr(given, name)]
    if chosen:
        _LOGGER.info("chosen for %s training tokens: %s", f"{num_tokens:,}", ", ".join(chosen))
    return sizes


def choose_dropout(dropout: float, readers: Sequence[Reader]) -> float:
    """Return the rate of dropout that suits the tokens, where that of a preset is not asked for by name."""
    # What characters of short texts, or frames, have in common is a rule, and not to be learned by heart.
    reads_frames = any(isinstance(reader, FrameNormalizer) for reader in readers)
    if dropout > 0.1 and (reads_frames or all(reader.kind == "character" for reader in readers)):
        _LOGGER.info("chosen for %s: dropout=0.1", "frames" if reads_frames else "characters")
        return 0.1
    return dropout
