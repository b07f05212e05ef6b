"""Options of a translation run: training pairs, vocabularies, decoding."""

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
    """Training, validation and test pairs, and length limits."""

    pairs: FileName | None = None
    """Training pairs: `dates` (built in), `tfds:NAME`, a file (`.tsv`, `.csv`, `.jsonl`, `.tmx`, plain or
    `.gz`), or a directory of such files. `FILE#SOURCE,TARGET` selects columns by name, or by number from 1.
    Defaults to `dates`."""
    source: Files | None = None
    """Source texts, one per line (plain or `.gz`) or per `<seg>` of SGML. For several files, repeat the flag
    (TOML: a list) or give a pattern."""
    target: Files | None = None
    """Target texts, one for each line of `source`, in the same number of files."""
    validation_source: Files | None = None
    """Validation sources, to select the best epoch. Defaults to a held-out part of the training data."""
    validation_target: Files | None = None
    """Translations of `validation_source`."""
    test_source: Files | None = None
    """Test sources, to score after training."""
    test_target: Files | None = None
    """Translations of `test_source`."""
    max_pairs_in_memory: Count = 500_000
    """Maximum number of training pairs in memory. If the files have more, the token ids are stored in
    `cache_directory`, the vocabulary is trained on a sample of 150,000 pairs, and at most 5,000 pairs are
    held out."""
    max_source_length: Length = 256
    """Maximum source length in tokens (with the end token) or frames. Longer training examples are
    dropped."""
    max_target_length: Length = 256
    """Maximum target length in tokens, including the end token. Longer training examples are dropped."""

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
    """Vocabularies of the sources and the targets."""

    target_kind: TokenizerKind | None = None
    """Tokenizer kind of the targets, such as `whitespace` for phonemes. Defaults to that of the sources.
    Another kind needs separate vocabularies (`--separate`)."""
    shared: bool = True
    """Whether sources and targets share one vocabulary."""
    subword_dropout: Fraction = 0.0
    """Fraction of subword merges to skip at random in training (BPE-dropout)."""
    target_subword_dropout: Fraction | None = None
    """Subword dropout of the targets. Defaults to `subword_dropout`. It makes texts longer in tokens, so 0 is
    faster."""

    @model_validator(mode="after")
    def _check(self) -> "_PairVocabularySection":
        if self.subword_dropout and "subword" not in (self.kind or "subword", self.target_kind):
            raise ValueError(
                "`subword_dropout` is for subword vocabularies. Received: subword_dropout="
                f"{self.subword_dropout}, kind={self.kind!r}, target_kind={self.target_kind!r}."
            )
        if self.shared and self.target_kind not in (None, self.kind or self.target_kind):
            raise ValueError(
                "`kind` and `target_kind` must be equal for a shared vocabulary; set `shared` to false. "
                f"Received: kind={self.kind!r}, target_kind={self.target_kind!r}."
            )
        return self

    @property
    def asked_kind(self) -> TokenizerKind | None:
        """Tokenizer kind that the options name or imply; None to choose one by the corpus."""
        if self.kind is None and (self.subword_dropout or self.target_subword_dropout):
            return "subword"
        return self.kind or (self.target_kind if self.shared else None)


class _TranslationTraining(_TrainingSection):
    """Training options of translation."""

    monitor: Literal["loss", "bleu", "chrf", "exact_match", "token_error_rate", "character_error_rate"] = (
        "loss"
    )
    """Validation metric that selects the best epoch. Other metrics than `loss` need task `translate` or
    `frames`."""
    monitored_pairs: Count = 500
    """Maximum number of validation pairs to translate per epoch if `monitor` is not `loss`."""


class _DecodingSection(_Section):
    """Search and scoring options of translation."""

    beam_size: Count = 4
    """Beam size. 1 is greedy search."""
    length_penalty: Weight = 1.0
    """Log-probabilities are divided by `((5 + length) / 6) ** length_penalty`; higher values favor longer
    outputs."""
    max_target_length: Length = 256
    """Maximum target length in tokens, including the end token. Longer training examples are dropped, longer
    outputs cut off."""
    split_texts: Literal["long", "all", "none"] = "long"
    """Texts to split at sentence ends: `long` ones (above `max_source_length`), `all` (for models trained on
    single sentences), or `none` (long ones are truncated)."""
    batch_size: Count = 64
    """Number of texts to decode or score together."""
    bleu_tokenize: Literal["13a", "none", "intl", "char"] = "13a"
    """Tokenization of sacreBLEU. Use `none` for texts that are already tokenized."""


class TranslationConfig(RunConfig):
    """Configuration of a run that trains a `Translator` on pairs of texts."""

    task: Literal["translate"] = "translate"
    """Task to train for."""
    data: _PairsSection = _PairsSection()
    vocabulary: _PairVocabularySection = _PairVocabularySection()
    training: _TranslationTraining = _TranslationTraining()
    cache_directory: FileName = "token_ids"
    """Directory that caches token ids of corpora above `max_pairs_in_memory`, shared by all runs."""
    decoding: _DecodingSection = _DecodingSection()

    @classmethod
    def start(cls, options: Mapping[str, Value]) -> "RunConfig":
        """Return the configuration of the built-in dates unless the options name other pairs."""
        if options.get("pairs", "dates") != "dates" or "source" in options or "target" in options:
            return cls()
        dates = cls.from_toml(Path(__file__).with_name("dates.toml"))
        # A preset given by flag replaces all sizes of dates.toml.
        return dates.model_copy(update={"model": _ModelSection()}) if "preset" in options else dates
