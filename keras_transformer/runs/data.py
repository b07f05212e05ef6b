"""Data of a run: its pairs, its vocabularies, and the batches that train and validate a model."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf

from keras_transformer._backend.compiler import compiles_each_shape
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.noise import subword_dropout
from keras_transformer.data.pairs import split_pairs
from keras_transformer.data.pipeline import translation_dataset
from keras_transformer.data.sources import read_pairs
from keras_transformer.decoding.sampling import GreedySearch
from keras_transformer.errors import InputError
from keras_transformer.runs.config import RunConfig, _DataSection, _VocabularySection
from keras_transformer.runs.directory import TOKENIZERS, _has_checkpoint
from keras_transformer.runs.large_corpus import Progress, _large_corpus, _LargeCorpus
from keras_transformer.runs.recipe import choose_kind, choose_sizes, train_tokenizer
from keras_transformer.tasks import Translator
from keras_transformer.text.subword import SubwordTokenizer
from keras_transformer.text.tokenizer import Tokenizer, load_tokenizer
from keras_transformer.types import Pair

_LOGGER = logging.getLogger(__name__)


class _RunPairs(NamedTuple):
    train: list[Pair]  # of a large corpus, the sample that its vocabulary is trained on
    validation: list[Pair]
    test: list[Pair]
    corpus: _LargeCorpus | None = None


def _load_pairs(config: RunConfig) -> _RunPairs:
    """Read all pairs of a run; a part that has no files is a split of the training pairs' origin."""
    data, corpus = config.data, _large_corpus(config)
    train = _read_part(data, "train", "") if corpus is None else corpus.sample
    validation, test = (_read_part(data, part, f"{part}_") for part in ("validation", "test"))
    if not validation and corpus is not None:
        validation = corpus.held_out
    elif not validation:
        train, validation = split_pairs(train, validation_fraction=data.validation_fraction, seed=data.seed)
    # Where a run has no test pairs, its report is of those that chose the best epoch.
    return _RunPairs(train=train, validation=validation, test=test or validation, corpus=corpus)


def _read_part(data: _DataSection, part: str, prefix: str) -> list[Pair]:
    source, target = getattr(data, f"{prefix}source"), getattr(data, f"{prefix}target")
    if source is not None:
        return read_pairs((source, target))
    # Files have no splits; the held-out part is cut from the training pairs above.
    if data.source is not None:
        return []
    return read_pairs(data.pairs or "dates", part, optional=part != "train", seed=data.seed)


def _train_tokenizers(vocabulary: _VocabularySection, pairs: list[Pair]) -> tuple[Tokenizer, Tokenizer]:
    # From training pairs alone: held-out texts with unknown tokens are scored as such.
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    kind = choose_kind(vocabulary.asked_kind, sources, targets)
    target_kind = vocabulary.target_kind or kind
    if vocabulary.shared:
        tokenizer = _train_tokenizer(vocabulary, kind, [*sources, *targets])
        return tokenizer, tokenizer
    return _train_tokenizer(vocabulary, kind, sources), _train_tokenizer(vocabulary, target_kind, targets)


def _train_tokenizer(vocabulary: _VocabularySection, kind: str, texts: list[str]) -> Tokenizer:
    return train_tokenizer(
        texts,
        kind,
        vocabulary.size,
        lowercase=vocabulary.lowercase,
        normalize_spaces=vocabulary.normalize_spaces,
    )


def _run_tokenizers(
    config: RunConfig, directory: Path, pairs: list[Pair], num_pairs: int | None = None
) -> tuple[Tokenizer, Tokenizer]:
    """Read the vocabularies of a run, or make them, or take those of the model that it begins with."""
    paths = [directory / name for name in TOKENIZERS]
    # A run that was killed may have left half a vocabulary; the file of options is written last.
    if all((path / "tokenizer.json").exists() for path in paths):
        return load_tokenizer(paths[0]), load_tokenizer(paths[1])
    # Made anew from the same pairs they might have other numbers, which a resumed model would not notice.
    if _has_checkpoint(directory):
        raise InputError(
            f"{directory} holds checkpoints, and no longer both {' and '.join(TOKENIZERS)}, whose numbers "
            "they were trained on. Put them back, or start again with --overwrite."
        )
    if config.model.initial_model is None:
        counts = f"{2 * len(pairs):,} of {2 * (num_pairs or len(pairs)):,} texts"
        _LOGGER.info("making the vocabularies of %s, drawn with seed %d", counts, config.data.seed)
        tokenizers = _train_tokenizers(config.vocabulary, pairs)
    else:
        initial = Translator.load(config.model.initial_model)
        if initial.source.name != "text":
            raise InputError(
                "`initial_model` must read texts, as the pairs of a run are. "
                f"Received: {config.model.initial_model}, which reads {initial.source.name}."
            )
        tokenizers = initial.source_tokenizer, initial.target_tokenizer
    for tokenizer, path in zip(tokenizers, paths, strict=True):
        tokenizer.save(path)
    return tokenizers


class _RunData:
    """Pairs of a run as token ids, and the batches of them; what is too long is dropped and counted."""

    def __init__(
        self,
        config: RunConfig,
        pairs: _RunPairs,
        tokenizers: tuple[Tokenizer, Tokenizer],
        progress: Progress | None = None,
    ) -> None:
        self.config, self.tokenizers, self._progress = config, tokenizers, progress
        initial = config.model.initial_model
        # Its rules belong to its weights: the token of a language that comes first, how lengths count.
        self.search = GreedySearch() if initial is None else Translator.load(initial).search
        self.training = self._encode(pairs.train if pairs.corpus is None else pairs.corpus, "training")
        self.validation = self._encode(pairs.validation, "validation")
        self.sizes = choose_sizes(
            int(self.training.lengths().max(axis=1).sum()),
            holds=max(config.data.max_source_length, config.data.max_target_length),
            gradient_accumulation_steps=config.training.gradient_accumulation_steps,
            **config.chosen,
        )

    def _encode(self, pairs: list[Pair] | _LargeCorpus, part: str) -> EncodedPairs:
        limits = self.config.data.max_source_length, self.config.data.max_target_length
        try:
            if isinstance(pairs, _LargeCorpus):
                return pairs.encode(self.tokenizers, limits, self._progress)
            return EncodedPairs.encode(
                pairs, *self.tokenizers, max_source_length=limits[0], max_target_length=limits[1]
            )
        except InputError as error:
            raise InputError(f"The {part} pairs: {error}") from error

    def training_batches(self, first_epoch: int = 0) -> tf.data.Dataset:
        # A resumed run sees the batches that it would have seen: order and noise follow from the epoch.
        return self._batches(self.training, shuffle=True, first_epoch=first_epoch)

    def validation_batches(self) -> tf.data.Dataset:
        # Always the same, so that losses of epochs can be compared.
        return self._batches(self.validation, shuffle=False, first_epoch=0)

    def _batches(self, encoded: EncodedPairs, *, shuffle: bool, first_epoch: int) -> tf.data.Dataset:
        data = self.config.data
        longest, tokens_per_batch = int(encoded.lengths().max()), self.sizes.tokens_per_batch
        if longest > tokens_per_batch:
            raise InputError(
                "`tokens_per_batch` must hold the longest pair. Received: "
                f"tokens_per_batch={tokens_per_batch}, a pair of {longest} tokens."
            )
        try:
            return translation_dataset(
                encoded,
                tokens_per_batch=tokens_per_batch,
                shuffle=shuffle,
                seed=data.seed,
                first_epoch=first_epoch,
                # XLA compiles again for each shape, so that there they are few.
                pad_to_bucket_boundary=compiles_each_shape() or self.config.training.distribute == "tpu",
                noise=self._noise() if shuffle else (),
            )
        except ValueError as error:
            raise InputError(str(error)) from error

    def _noise(self) -> list[Callable[[tf.data.Dataset], tf.data.Dataset]]:
        vocabulary, seed = self.config.vocabulary, self.config.training.seed
        rates = [vocabulary.subword_dropout, vocabulary.target_subword_dropout]
        rates[1] = rates[0] if rates[1] is None else rates[1]
        limits = self.config.data.max_source_length, self.config.data.max_target_length
        steps = []
        for side, (tokenizer, rate) in enumerate(zip(self.tokenizers, rates, strict=True)):
            if isinstance(tokenizer, SubwordTokenizer) and rate:
                source, target = (None, tokenizer) if side else (tokenizer, None)
                # A limit counts a special token, which is not in the row yet when its tokens are split.
                length = limits[side] - 1
                steps.append(subword_dropout(source, target, rate, max_length=length, seed=seed))
        if any(rates) and not steps:  # the vocabularies may be those of an earlier model
            kinds = " and ".join(type(tokenizer).__name__ for tokenizer in self.tokenizers)
            raise InputError(
                "`subword_dropout` is for subword vocabularies. Received: "
                f"subword_dropout={rates[0]}, target_subword_dropout={rates[1]}, vocabularies of {kinds}."
            )
        return steps
