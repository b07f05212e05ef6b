"""Configuration of a run: the defaults, then a TOML file, then options by name."""

import ast
import inspect
import re
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_type_hints

from keras.optimizers.schedules import CosineDecay, LearningRateSchedule
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from keras_transformer._files import as_path, read_file, read_table
from keras_transformer.errors import InputError
from keras_transformer.models.config import PRESETS, TransformerConfig
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule
from keras_transformer.types import Count, Length

Value: TypeAlias = str | int | float | bool | list[str]

# What the file of a run has besides: checksums of its values, and of other files.
CHECKSUMS = "checksums"
_MAX_TOML = 2**20  # bytes

# NumPy's generators take seeds of 32 bits.
Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Weight: TypeAlias = Annotated[float, Field(ge=0)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
# A variable of the shell that is not set is an empty string, which would be the working directory.
FileName: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
Files: TypeAlias = FileName | list[FileName]
TokenizerKind: TypeAlias = Literal["character", "subword", "whitespace"]


class _Section(BaseModel):
    """A frozen table of typed values; the docstring under each field is the help of its flag."""

    # Each value is declared once, with its type, range, default and the text of its flag, so that a run made
    # in Python, read from a file or changed by a flag is checked alike and refused with the same message.
    # No conversions and no unknown names: a misspelled field would otherwise be a default without a word.
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class _DataSection(_Section):
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
    validation_fraction: Fraction = 0.05
    """Part of the training pairs that is held out if no validation pairs are given."""
    max_pairs_in_memory: Count = 500_000
    """Of more training pairs in files, token ids are kept in `cache_directory`, the vocabulary is trained on
    a sample of 150,000 pairs, and at most 5,000 are held out."""
    max_source_length: Length = 256
    """Longest source in tokens, the end token included; longer pairs are dropped and counted."""
    max_target_length: Length = 256
    """Longest target in tokens, one special token included; longer pairs are dropped and counted."""
    tokens_per_batch: Count | None = None
    """Tokens of a batch on its longer side, padding included; if absent from 512 to 4096, by the corpus."""
    seed: Seed = 0
    """Seed of everything random."""

    @model_validator(mode="after")
    def _check(self) -> "_DataSection":
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
        if not self.validation_fraction and self.validation_source is None:
            raise ValueError(
                "`validation_fraction` must be above 0; some pairs must choose the best checkpoint. "
                f"Received: validation_fraction={self.validation_fraction}."
            )
        return self


class _VocabularySection(_Section):
    """Tokens that text is cut into."""

    kind: TokenizerKind | None = None
    """Kind of token. If absent `subword`; for short texts of digits, codes or single words `character`."""
    target_kind: TokenizerKind | None = None
    """Kind of the target's tokens where it differs, such as phones between spaces."""
    size: Annotated[int, Field(ge=5, lt=2**31)] | None = None
    """Most entries of a vocabulary, the four special tokens included; 8000 if absent, of subwords fewer for
    a small corpus: one for each 400 characters."""
    shared: bool = True
    """Train one vocabulary on source and target together."""
    lowercase: bool = False
    """Lower-case all text first; outputs are in lower case too."""
    normalize_spaces: bool = False
    """In character vocabularies: read each run of spaces as one space, and none at the ends of a text."""
    subword_dropout: Fraction = 0.0
    """Part of a subword vocabulary's merges that is left out in training, others in each epoch."""
    target_subword_dropout: Fraction | None = None
    """The same for targets, where it differs; 0 leaves them, the more costly side, as short as they are."""

    @model_validator(mode="after")
    def _check(self) -> "_VocabularySection":
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


# What the vocabularies and the data decide; there are as many learned positions as a run's limits allow.
_DECIDED_ELSEWHERE = {"source_vocabulary_size", "target_vocabulary_size", "encoder_feature_dim"}
_DECIDED_ELSEWHERE |= {"source_convolutions", "max_source_positions"}
_DECIDED_ELSEWHERE |= {"max_length", "num_layers"}
_MODEL_TYPES = {
    name: kind for name, kind in get_type_hints(TransformerConfig).items() if name not in _DECIDED_ELSEWHERE
}
_MODEL_FIELDS: dict[str, Any] = {name: (kind | None, None) for name, kind in _MODEL_TYPES.items()}
# Checks types alone; `_ModelSection` keeps what was asked for, so that a file of a run has no more than that.
_ModelChanges = create_model("_ModelChanges", __base__=_Section, **_MODEL_FIELDS)


# A preset and what differs from it, since the sizes of the vocabularies are not known before they are made.
class _ModelSection(_Section, extra="allow"):
    """A preset, and what differs from it: any field of `TransformerConfig` that a run may set."""

    preset: Literal["tiny", "small", "base", "big"] = "tiny"
    """Size of the model."""
    initial_model: FileName | None = None
    """Begin with vocabularies, architecture and weights of this run or saved translator; only rates of
    dropout may differ."""

    @model_validator(mode="after")
    def _check(self) -> "_ModelSection":
        _ModelChanges.model_validate(self.changes)
        if self.initial_model is None:  # whose sizes are not known yet
            self.transformer()
        return self

    @property
    def changes(self) -> dict[str, object]:
        return self.model_extra or {}

    def transformer(self, longest: int = 1, **decided: object) -> TransformerConfig:
        # What was asked for wins: a run may share embeddings or not, whatever its vocabularies would decide.
        options = {**PRESETS[self.preset].options(), **decided, **self.changes}
        options["max_length"] = longest if options["positions"] == "learned" else None
        return TransformerConfig(**options)


class _TrainingSection(_Section):
    """Recipe of the training."""

    epochs: Count | None = None
    """Passes over the training pairs. If absent 10 to 100, for 3000 updates at least."""
    schedule: Literal["constant", "cosine", "inverse_square_root", "noam"] = "inverse_square_root"
    """Learning rate after the warm-up; `constant` has none."""
    peak_learning_rate: Positive = 1e-3
    """Highest learning rate, at the end of the warm-up; `noam` has its own, by the model's width."""
    warmup_steps: Count | None = None
    """Updates until the learning rate is at its peak; under `cosine` at most a fifth of all. If absent
    1000, or a fifth."""
    label_smoothing: Fraction = 0.1
    """Probability that is spread over the vocabulary."""
    r_drop: Weight = 0.0
    """Weight of the divergence between two passes with other dropout (R-Drop); 0 for one pass."""
    z_loss: Weight | None = None
    """Weight of the z-loss, which keeps logits small; if absent 1e-4 in mixed precision and 0 else."""
    clip_norm: Positive | None = None
    """Highest norm of all gradients together."""
    gradient_accumulation_steps: Count = 1
    """Batches of one update; each token counts alike, whichever batch it is in."""
    ema_momentum: Fraction | None = None
    """Decay of the exponential moving average of the weights, which is then used; `average_last` averages the
    weights as they were."""
    average_last: Count | None = None
    """Use the mean of so many of the last checkpoints, at most of half of all epochs, not the best one."""
    monitor: Literal[
        "loss", "bleu", "chrf", "exact_match", "word_error_rate", "token_error_rate", "character_error_rate"
    ] = "loss"
    """What chooses the best epoch: the loss of the validation pairs, or a metric of their translations."""
    monitored_pairs: Count = 500
    """Most validation pairs that are translated after an epoch for such a metric."""
    patience: Count | None = None
    """Stop after so many epochs in a row that are no better."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras dtype policy."""
    distribute: Literal["cores", "mirrored", "tpu", "data_parallel", "model_parallel"] | None = None
    """Train on all cores or devices: `cores`, `mirrored` or `tpu` on TensorFlow, the others on JAX."""
    seed: Seed = 0
    """Seed of the initial weights and of dropout."""
    deterministic: bool = False
    """Compute in one order on TensorFlow, so that equal runs end in equal bits; slower."""

    def learning_rate(
        self, num_steps: int, warmup_steps: int, hidden_dim: int
    ) -> float | LearningRateSchedule:
        if self.schedule == "constant":
            return self.peak_learning_rate
        if self.schedule == "inverse_square_root":
            return InverseSquareRootSchedule(self.peak_learning_rate, warmup_steps)
        if self.schedule == "noam":
            return NoamSchedule(hidden_dim, warmup_steps)
        warmup_steps = min(warmup_steps, num_steps // 5)  # a short run must not be all warm-up
        return CosineDecay(
            0.0,
            max(num_steps - warmup_steps, 1),
            warmup_target=self.peak_learning_rate,
            warmup_steps=warmup_steps,
        )


class _DecodingSection(_Section):
    """Search for a translation, and how translations are scored."""

    beam_size: Count = 4
    """Hypotheses that the search keeps; 1 is greedy."""
    length_penalty: Weight = 1.0
    """Exponent of the length that scores are divided by; 0 prefers short translations."""
    max_target_length: Length = 256
    """Longest translation in tokens, the end token included."""
    batch_size: Count = 64
    """Texts that are decoded together."""
    bleu_tokenize: Literal["13a", "none", "intl", "char"] = "13a"
    """Tokenization of sacreBLEU; `none` for text that is tokenized already."""


# Chosen by the number of tokens where they are not given.
_CHOSEN = {"tokens_per_batch": "data", "epochs": "training", "warmup_steps": "training"}
# These names are fields of two sections and mean one thing to who gives them; there are no others.
_IN_TWO_SECTIONS = {"seed": ("data", "training"), "max_target_length": ("data", "decoding")}


class _Option(NamedTuple):
    # A value that a run can be given by name, and the sections that hold it.
    sections: tuple[str, ...]
    annotation: object
    default: object
    text: str


class RunConfig(_Section, strict=False):
    """All that decides the outcome of a run.

    Fields are read from the tables `[data]`, `[vocabulary]`, `[model]`, `[training]` and `[decoding]` of a
    TOML file; paths are relative to the working directory.

    Raises:
        ValueError: if a value is of the wrong type or out of its range, or two values do not fit together.

    Example:
        >>> RunConfig(name="de_en").override(epochs=3).training.epochs
        3
    """

    name: str = "model"
    """Name of the model: its directory in `run_directory` and in `export_directory`."""
    run_directory: FileName = "runs"
    """Where checkpoints, logs and pictures go."""
    export_directory: FileName = "saved_models"
    """Where the served versions go."""
    cache_directory: FileName = "token_ids"
    """Where token ids of more pairs than `max_pairs_in_memory` are kept, for all runs on them."""
    data: _DataSection = _DataSection()
    vocabulary: _VocabularySection = _VocabularySection()
    model: _ModelSection = _ModelSection()
    training: _TrainingSection = _TrainingSection()
    decoding: _DecodingSection = _DecodingSection()

    @model_validator(mode="after")
    def _check(self) -> "RunConfig":
        if self.name in ("", ".", "..") or any(character in self.name for character in "/\\\0"):
            raise ValueError(
                f"`name` must be the name of a directory, no path. Received: name={self.name!r}."
            )
        return self

    @classmethod
    def default(cls, **options: Value) -> "RunConfig":
        """Return the configuration of a run without a file: the built-in dates if no option names others."""
        if options.get("pairs", "dates") != "dates" or "source" in options or "target" in options:
            return cls().override(**options)
        dates = cls.from_toml(Path(__file__).with_name("dates.toml"))
        # The sizes of a preset that is named, not those that the dates change in theirs.
        if "preset" in options:
            dates = dates.model_copy(update={"model": _ModelSection()})
        return dates.override(**options)

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> "RunConfig":
        """Read a TOML file.

        Args:
            path: of the file: `name` and the directories first, then a table for each section.

        Raises:
            InputError: if the file cannot be read, or a field is unknown or holds a wrong value.
        """
        path = as_path(path)
        content = read_file(path, limit=_MAX_TOML, may_be_empty=True)
        return _validated(read_table(content, f"{path}:", parse=tomllib.loads), f"{path}: ")

    @classmethod
    def from_json(cls, text: str | bytes, origin: str = "JSON") -> "RunConfig":
        """Read the configuration in a run's directory; `origin` names the file in messages."""
        content = text if isinstance(text, bytes) else text.encode()
        table = read_table(content, f"{origin}:")
        table.pop(CHECKSUMS, None)  # which are asked when a run goes on
        return _validated(table, f"{origin}: ")

    def override(self, **options: Value) -> "RunConfig":
        """Return the same configuration with other values.

        Args:
            **options: values by the name of their field, whatever its section. `seed` and `max_target_length`
                stand in two sections and are set in both.

        Raises:
            InputError: if a name is unknown, or a value is wrong.
        """
        table = self.model_dump()
        known = self.options()
        for name, value in options.items():
            if name not in known:
                raise InputError(f"No section has this field. Received: {name!r}. Known: {', '.join(known)}.")
            for section in known[name].sections:
                (table[section] if section else table)[name] = value
        return _validated(table)

    @property
    def chosen(self) -> dict[str, int | None]:
        """What follows the corpus where it is not given, by name."""
        return {name: getattr(getattr(self, section), name) for name, section in _CHOSEN.items()}

    def completed(self, chosen: Mapping[str, int | None]) -> "RunConfig":
        """Return the same configuration with values for what is not given."""
        missing = {name: value for name, value in chosen.items() if self.chosen[name] is None}
        return self.override(**{name: value for name, value in missing.items() if value is not None})

    @classmethod
    def options(cls) -> dict[str, _Option]:
        """Return all that a run can be given by name, in the order of the sections."""
        options = {}
        for section, field in cls.model_fields.items():
            if not isinstance(field.default, _Section):
                options[section] = _Option(("",), field.annotation, field.default, field.description or "")
                continue
            for name, inner in type(field.default).model_fields.items():
                sections = _IN_TWO_SECTIONS.get(name, (section,))
                options[name] = _Option(sections, inner.annotation, inner.default, inner.description or "")
            if section == "model":
                texts = _model_docstrings()
                for name, kind in _MODEL_TYPES.items():
                    options[name] = _Option(("model",), kind, None, texts[name])
        return options


def _model_docstrings() -> dict[str, str]:
    # As pydantic does for its own models. Python keeps no docstrings of fields, so the source is read.
    texts = {}
    for base in TransformerConfig.__mro__[:-1]:
        [definition] = ast.parse(inspect.getsource(base)).body
        for field, text in pairwise(getattr(definition, "body", ())):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                texts[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(text.value))
    return texts


def _validated(table: object, origin: str = "") -> RunConfig:
    try:
        return RunConfig.model_validate(table)
    except ValidationError as error:
        raise InputError(f"{origin}{_one_line(error)}") from error


def _one_line(error: ValidationError) -> str:
    # The first fault alone, as everywhere: pydantic's own text takes several lines, and a link, for each.
    fault = error.errors(include_url=False)[0]
    # No deeper than sections: which of several types of a field failed is not for its reader.
    *sections, name = ("", *map(str, fault["loc"][:2]))
    where = "".join(f"[{section}]: " for section in sections if section)
    table = f"{where}[{name}]: " if name else ""
    if fault["type"] == "value_error":  # of a check above, whose message is whole
        return f"{table}{fault['ctx']['error']}"
    if fault["type"] == "model_type":
        return f"{table}must be a table of fields. Received: {fault['input']!r}."
    if fault["type"] == "extra_forbidden":
        known = [key for key, option in RunConfig.options().items() if {*sections[1:]} & {*option.sections}]
        return f"{where}unknown field {name!r}. Known fields: {', '.join(known or RunConfig.model_fields)}."
    wanted = re.sub("^(Input|String) should", "must", fault["msg"])
    return f"{where}`{name}` {wanted}. Received: {name}={fault['input']!r}."
