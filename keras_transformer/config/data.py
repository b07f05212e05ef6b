"""Where the sentence pairs of a run come from, and what turns them into token ids."""

import dataclasses

from keras_transformer.config.section import (
    Section,
    require_at_least,
    require_choice,
    require_fraction,
    require_seed,
    require_together,
)

VOCABULARY_KINDS = ("character", "subword", "whitespace")
_PARTS = ("", "validation_", "test_")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataConfig(Section):
    """The pairs to train, validate and test on, and the limits of a batch.

    Training pairs come either from `pairs` or from the two files `source` and `target`. With neither,
    the run is on the built-in task. Every file may be plain or end in `.gz`.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range, both origins are given or half of a file pair is missing.
    """

    pairs: str | None = None
    """Origin by name: "dates", "tfds:NAME" or the path of a file with tab-separated columns."""
    source: str | None = None
    """File with one source sentence a line."""
    target: str | None = None
    """File with the translation of each line of `source`."""
    validation_source: str | None = None
    """Source sentences that choose the best checkpoint; without them a part of the training pairs does."""
    validation_target: str | None = None
    """The translations of `validation_source`."""
    test_source: str | None = None
    """Source sentences that are scored once, after training."""
    test_target: str | None = None
    """The translations of `test_source`."""
    validation_fraction: float = 0.05
    """Part of the training pairs held out where no validation pairs are given."""
    max_source_length: int = 256
    """Longest source in tokens, the end token included; longer pairs are dropped and counted."""
    max_target_length: int = 256
    """Longest target in tokens, one special token included; longer pairs are dropped and counted."""
    tokens_per_batch: int = 4096
    """Tokens of a batch on its longer side, padding included."""
    packed_length: int | None = None
    """Put several training pairs into rows of so many tokens, so that all batches have one shape."""
    seed: int = 0
    """Seed of the shuffling and of the validation split."""

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        for part in _PARTS:
            require_together(self, f"{part}source", f"{part}target")
        self._refuse_empty_names()
        if self.pairs is not None and self.source is not None:
            raise ValueError(
                "`pairs` and `source` are two origins; give one. "
                f"Received: pairs={self.pairs!r}, source={self.source!r}."
            )
        require_fraction(self, "validation_fraction")
        if not self.validation_fraction and self.validation_source is None:
            raise ValueError(
                "`validation_fraction` must be above 0; some pairs must choose the best checkpoint. "
                f"Received: validation_fraction={self.validation_fraction}."
            )
        require_at_least(self, 2, "max_source_length", "max_target_length")
        require_at_least(self, 1, "tokens_per_batch", "packed_length")
        require_seed(self)

    def _refuse_empty_names(self) -> None:
        """Refuse the name that a variable of the shell leaves which is not set."""
        for name in ("pairs", *(f"{part}{side}" for part in _PARTS for side in ("source", "target"))):
            if getattr(self, name) == "":
                raise ValueError(f"`{name}` must name a file or a dataset. Received: {name}=''.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyConfig(Section):
    """How text is cut into tokens.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a kind is unknown, the size is too small or one vocabulary is to serve two kinds.
    """

    kind: str = "subword"
    """What a token is: "character", "subword" or "whitespace"."""
    target_kind: str | None = None
    """Kind of the target vocabulary where it differs, such as phones between spaces."""
    size: int = 8000
    """Most entries of a vocabulary, the four special tokens included."""
    shared: bool = True
    """Train one vocabulary on source and target together."""
    lowercase: bool = False
    """Lower-case the text first; answers are in lower case too."""
    normalize_spaces: bool = False
    """Of character vocabularies: make every run of spaces one space, and none at the ends of a text."""
    subword_dropout: float = 0.0
    """Of subword vocabularies: the part of the merges that is left out in training, others in each epoch."""
    target_subword_dropout: float | None = None
    """The same of targets, where it differs; 0 leaves them, the more costly side, as short as they are."""

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        require_choice(self, "kind", VOCABULARY_KINDS)
        require_choice(self, "target_kind", VOCABULARY_KINDS)
        require_at_least(self, 5, "size")
        require_fraction(self, "subword_dropout", "target_subword_dropout")
        if self.subword_dropout and "subword" not in (self.kind, self.target_kind):
            raise ValueError(
                "`subword_dropout` is for subword vocabularies. Received: "
                f"subword_dropout={self.subword_dropout}, "
                f"kind={self.kind!r}, target_kind={self.target_kind!r}."
            )
        if self.shared and self.target_kind not in (None, self.kind):
            raise ValueError(
                "A shared vocabulary is of one kind; set `shared` to false. "
                f"Received: kind={self.kind!r}, target_kind={self.target_kind!r}."
            )
