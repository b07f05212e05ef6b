"""Defaults that follow from the corpus: tokenizer, batch size, epochs, warm-up, dropout.

Runs and `Recipe` share these rules.
"""

import dataclasses
import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transformer._arguments import as_pairs
from keras_transformer.data import FrameNormalizer
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.models.config import PRESETS
from keras_transformer.text.lookup import CharacterTokenizer, WhitespaceTokenizer
from keras_transformer.text.reader import Reader
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.training.schedules import InverseSquareRootSchedule
from keras_transformer.types import SPECIAL_TOKENS, Pair

_MAX_VOCABULARY_SIZE = 8000  # if not given
_MIN_TOKENS_PER_BATCH = 512
_MAX_MEAN_CHARACTERS = 64  # of a text; longer texts make character sequences too long

_LOGGER = logging.getLogger(__name__)


class _Sizes(NamedTuple):
    tokens_per_batch: int
    epochs: int
    warmup_steps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings that `keras-transformer train` chooses for a corpus, for use in your own script.

    Example:
        ```python
        recipe = kt.runs.Recipe.of(training)
        size = recipe.tokenizer.vocabulary_size
        model = kt.Transformer.from_preset("tiny", size, size, dropout=recipe.dropout)
        kt.training.compile_model(model, recipe.learning_rate)
        ```
    """

    tokenizer: Tokenizer
    """Tokenizer of both sides, or only of the targets if the sources are frames. Characters for short texts
    of digits, codes or single words, else subwords; a small corpus gets a small vocabulary."""
    source_reader: Reader
    """The tokenizer, or the `FrameNormalizer` of frames."""
    tokens_per_batch: int
    """Argument of `data.translation_dataset`, from 512 to 4096."""
    epochs: int
    """Number of epochs: enough for 3000 updates, but from 10 to 100."""
    warmup_steps: int
    """Number of warm-up updates: a fifth of all, at most 1000."""
    dropout: float
    """Dropout rate for the preset `tiny`."""

    @classmethod
    def of(cls, pairs: Sequence[Pair] | Sequence[tuple[np.ndarray, str]]) -> "Recipe":
        """Choose the recipe for training pairs, and train their tokenizer.

        Args:
            pairs: Training sources and targets, without validation pairs. Sources may be frames, arrays
                `(s, w)`.

        Returns:
            The recipe.

        Raises:
            TypeError: If a pair is not two strings.
            InputError: If there are no pairs, or they contain no text.
        """
        first = next(iter(pairs), ()) if isinstance(pairs, Sequence) else ()
        reads_frames = isinstance(first, tuple | list) and hasattr(next(iter(first), None), "shape")
        several: list[Any] = [*pairs] if reads_frames else as_pairs(pairs=pairs)
        sources, targets = [source for source, _ in several], [target for _, target in several]
        texts = targets if reads_frames else [*sources, *targets]
        tokenizer = train_tokenizer(texts, choose_kind(None, texts[: len(targets)], targets))
        reader = FrameNormalizer.adapt(sources) if reads_frames else tokenizer
        lengths = EncodedPairs.encode(several, reader, tokenizer).lengths()
        sizes = choose_sizes(int(lengths.max(axis=1).sum()), holds=int(lengths.max()))
        dropout = choose_dropout(PRESETS["tiny"].dropout, (reader, tokenizer))
        return cls(tokenizer=tokenizer, source_reader=reader, **sizes._asdict(), dropout=dropout)

    @property
    def learning_rate(self) -> InverseSquareRootSchedule:
        """Linear warm-up to 0.001, then inverse square root decay."""
        return InverseSquareRootSchedule(1e-3, self.warmup_steps)


def choose_kind(kind: str | None, sources: list[str], targets: list[str]) -> str:
    """Return the given kind of tokenizer, or choose one by the texts; log the reason."""
    # On 3,000 numbers in words and digits, subwords reach 12.7 % exact match and characters 90 % after equal
    # numbers of updates: a subword of half a number may never occur in training.
    reason = _reason_for_characters(sources, targets)
    if kind is None and reason:
        _LOGGER.info(
            "chosen for these texts: kind=character, because %s; the alternative is kind=subword", reason
        )
        return "character"
    if kind == "subword" and reason:
        _LOGGER.info("kind=character may suit these texts better, because %s", reason)
    return kind or "subword"


def _reason_for_characters(sources: list[str], targets: list[str]) -> str:
    """Return why characters suit a corpus; empty if they do not."""
    sides = {"sources": sources, "targets": targets}
    if any(sum(map(len, texts)) > _MAX_MEAN_CHARACTERS * len(texts) for texts in sides.values()):
        return ""
    for name, texts in sides.items():
        characters = "".join("".join(text.split()) for text in texts)
        if sum(map(str.isdigit, characters)) * 4 >= len(characters) > 0:
            return f"{name} are digits and codes"
    # If only one side has no spaces, it may be sentences of a language without spaces.
    words = [sum(len(text.split()) == 1 for text in texts) >= 0.9 * len(texts) for texts in sides.values()]
    return "they are single words" if all(words) else ""


def train_tokenizer(
    texts: list[str],
    kind: str,
    size: int | None = None,
    *,
    lowercase: bool = False,
    normalize_spaces: bool = False,
    normalization_rule: str = "nmt_nfkc",
) -> Tokenizer:
    """Train a tokenizer of the given kind; its size defaults to one that suits the texts."""
    largest = size or _MAX_VOCABULARY_SIZE
    if normalize_spaces and kind != "character":
        _LOGGER.info("normalize_spaces has no effect with kind=%s", kind)
    if normalization_rule != "nmt_nfkc" and kind != "subword":
        _LOGGER.info("normalization_rule has no effect with kind=%s", kind)
    if kind == "subword":
        # With 8,000 entries for 2,470 numbers and their names, each number becomes one token: 0 % exact
        # match, but 60 % with 192 entries. The minimum covers all characters.
        fitting = max(sum(map(len, texts)) // 400, 2 * len(set().union(*texts)) + len(SPECIAL_TOKENS))
        if not size and fitting < largest:
            largest = fitting
            _LOGGER.info("chosen for these texts: size=%d", largest)
        return SubwordTokenizer.train(
            texts, largest, lowercase=lowercase, normalization_rule=normalization_rule
        )
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
    """Choose the missing sizes. A small corpus gets enough updates, most of them after the warm-up."""
    # 2,470 pairs, 10 epochs, 4,096 tokens per batch: 40 updates of a warm-up of 1,000, all outputs empty.
    given = _Sizes(tokens_per_batch or 0, epochs or 0, warmup_steps or 0)
    tokens_per_batch = given.tokens_per_batch or max(
        min(num_tokens // 100, 4096), _MIN_TOKENS_PER_BATCH, holds
    )
    updates_per_epoch = max(num_tokens / tokens_per_batch, 1) / gradient_accumulation_steps
    epochs = given.epochs or min(max(math.ceil(3000 / updates_per_epoch), 10), 100)
    warmup_steps = given.warmup_steps or min(max(int(epochs * updates_per_epoch / 5), 1), 1000)
    sizes = _Sizes(tokens_per_batch, epochs, warmup_steps)
    chosen = [f"{name}={value}" for name, value in sizes._asdict().items() if not getattr(given, name)]
    if chosen:
        _LOGGER.info("chosen for %s training tokens: %s", f"{num_tokens:,}", ", ".join(chosen))
    return sizes


def choose_dropout(dropout: float, readers: Sequence[Reader]) -> float:
    """Return the preset's rate `dropout`, but at most 0.1 for frames or character tokenizers."""
    # Short character sequences and frames need less dropout: they follow rules that the model must learn.
    reads_frames = any(isinstance(reader, FrameNormalizer) for reader in readers)
    if dropout > 0.1 and (reads_frames or all(reader.kind == "character" for reader in readers)):
        _LOGGER.info("chosen for %s: dropout=0.1", "frames" if reads_frames else "characters")
        return 0.1
    return dropout
