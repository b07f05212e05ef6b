"""Options of a run that translates: where its pairs are, its vocabularies, and its search."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from keras_transformer.runs.config import (
    FileName,
    Files,
    Fraction,
    RunConfig,
    TokenizerKind,
    Value,
    Weight,
    _DataSection,
    _ModelSection,
    _Section,
    _TrainingSection,
    _VocabularySection,
)
from keras_transformer.types import Count, Length


class _PairsSection(_DataSection):
    """Pairs to train, validate and test on, and the limits of a batch."""

    pairs: FileName | None = None
    """Pairs by name: `dates`, `tfds:NAME`, a file (`.tsv`, `.csv`, `.jsonl`, `.tmx`, plain or `.gz`), a
    directory of them, or a folder of files `LANGUAGE.SPLIT.txt` as TFDS's `TranslateFolder` has them; the
    built-in dates if absent. `FILE#SOURCE,TARGET` names columns, or counts them from 1."""
    source: Files | None = None
    """File with a source text on each line, or in each `<seg>` of SGML, plain or `.gz`; several, or a
    pattern, for shards."""
    target: Files | None = None
    """File with the translation of each line of `source`; as many as of `source`."""
    validation_source: Files | None = None
    """Source texts that choose the best epoch. If absent, a part of the training pairs does."""
    validation_target: Files | None = None
    """Translations of `validation_source`."""
    test_source: Files | None = None
    """Source texts that are scored after training."""
    test_target: Files | None = None
    """Translations of `test_source`."""
    max_pairs_in_memory: Count = 500_000
    """Of more training pairs in files, token ids are kept in `cache_directory`, the vocabulary is trained on
    a sample of 150,000 pairs, and at most 5,000 are held out."""
    max_source_length: Length = 256
    """Longest source in tokens, the end token included; longer pairs are dropped and counted."""
    max_target_length: Length = 256
    """Longest target in tokens, one special token included; longer pairs are dropped and counted."""

    @model_validator(mode="after")
    def _check(self) -> "_PairsSection":
        for part in ("", "validation_", "test_"):
            source, target = getattr(self, f"{part}source"), getattr(self, f"{part}target")
            if (source is None) != (target is None):
                raise ValueError(
                    f"`{part}source` and `{part}target` must be given together. "
                    f"Received: {part}source={source!r}, {part}target={target!r}."
                )
        if self.pairs is not None and self.source is not None:
            raise ValueError(
                "`pairs` and `source` are two origins; give one. "
                f"Received: pairs={self.pairs!r}, source={self.source!r}."
            )
        return self


class _PairVocabularySection(_VocabularySection):
    """Tokens that the texts of both sides are cut into."""

    target_kind: TokenizerKind | None = None
    """Kind of the target's tokens where it differs, such as phones between spaces."""
    shared: bool = True
    """Train one vocabulary on source and target together."""
    subword_dropout: Fraction = 0.0
    """Part of a subword vocabulary's merges that is left out in training, others in each epoch."""
    target_subword_dropout: Fraction | None = None
    """The same for targets, where it differs; 0 leaves them, the more costly side, as short as they are."""

    @model_validator(mode="after")
    def _check(self) -> "_PairVocabularySection":
        if self.subword_dropout and "subword" not in (self.kind or "subword", self.target_kind):
            raise ValueError(
                "`subword_dropout` is for subword vocabularies. Received: subword_dropout="
                f"{self.subword_dropout}, kind={self.kind!r}, target_kind={self.target_kind!r}."
            )
        if self.shared and self.target_kind not in (None, self.kind or self.target_kind):
            raise ValueError(
                "A shared vocabulary is of one kind; set `shared` to false. "
                f"Received: kind={self.kind!r}, target_kind={self.target_kind!r}."
            )
        return self

    @property
    def asked_kind(self) -> TokenizerKind | None:
        """Kind that was asked for, in its own name or by an option of it; None to choose one."""
        if self.kind is None and (self.subword_dropout or self.target_subword_dropout):
            return "subword"
        return self.kind or (self.target_kind if self.shared else None)


class _TranslationTraining(_TrainingSection):
    """Recipe of the training."""

    monitor: Literal[
        "loss", "bleu", "chrf", "exact_match", "word_error_rate", "token_error_rate", "character_error_rate"
    ] = "loss"
    """What chooses the best epoch: the loss of the validation pairs, or a metric of their translations."""
    monitored_pairs: Count = 500
    """Most validation pairs that are translated after an epoch for such a metric."""


class _DecodingSection(_Section):
    """Search for a translation, and how translations are scored."""

    beam_size: Count = 4
    """Hypotheses that the search keeps; 1 is greedy."""
    length_penalty: Weight = 1.0
    """Exponent of the length that scores are divided by; 0 prefers short translations."""
    max_target_length: Length = 256
    """Longest translation in tokens, the end token included."""
    split_texts: Literal["long", "all", "none"] = "long"
    """Texts that are split at the ends of sentences: longer ones than `max_source_length`, or all that have
    several, as suits a model of single sentences; `none` cuts off long ones."""
    batch_size: Count = 64
    """Texts that are decoded together."""
    bleu_tokenize: Literal["13a", "none", "intl", "char"] = "13a"
    """Tokenization of sacreBLEU; `none` for text that is tokenized already."""


class TranslationConfig(RunConfig):
    """A run from pairs of texts to a `Translator`."""

    task: Literal["translate"] = "translate"
    """What the model is trained for."""
    data: _PairsSection = _PairsSection()
    vocabulary: _PairVocabularySection = _PairVocabularySection()
    training: _TranslationTraining = _TranslationTraining()
    cache_directory: FileName = "token_ids"
    """Where token ids of more pairs than `max_pairs_in_memory` are kept, for all runs on them."""
    decoding: _DecodingSection = _DecodingSection()

    @classmethod
    def start(cls, options: Mapping[str, Value]) -> "RunConfig":
        """Return the built-in dates if no option names other pairs."""
        if options.get("pairs", "dates") != "dates" or "source" in options or "target" in options:
            return cls()
        dates = cls.from_toml(Path(__file__).with_name("dates.toml"))
        # The sizes of a preset that is named, not those that the dates change in theirs.
        return dates.model_copy(update={"model": _ModelSection()}) if "preset" in options else dates
