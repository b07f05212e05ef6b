"""The configuration of a run: the task's defaults, then a TOML file, then flags."""

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

from keras_transformer.errors import InputError

# What one field, one command-line flag or one TOML value may be.
Value: TypeAlias = str | int | float | bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Section:
    """A frozen set of named values that knows their types.

    A subclass checks its values in `__post_init__`, after the types were checked here.

    Raises:
        TypeError: if a value is not of the type its field declares.
    """

    def __post_init__(self) -> None:
        """Check the type of every field."""
        hints = get_type_hints(type(self))
        for name in field_names(type(self)):
            value = getattr(self, name)
            if not is_of_type(value, hints[name]):
                raise TypeError(f"`{name}` must be {type_name(hints[name])}. Received: {name}={value!r}.")


def field_names(kind: type[Section]) -> list[str]:
    """Return the names of the fields, in the order of their declaration."""
    return [field.name for field in dataclasses.fields(kind)]


def is_of_type(value: object, wanted: Any) -> bool:
    """Tell whether a value fits an annotation.

    A whole number is a good `float`; `True` is not a number, although Python counts it as one.

    Args:
        value: any value.
        wanted: a class or a union of classes, such as `int | None`.
    """
    kinds = get_args(wanted) or (wanted,)
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds) or (float in kinds and isinstance(value, int))


def type_name(wanted: Any) -> str:
    """Return an annotation in words, for a message: `int or None`."""
    kinds = get_args(wanted) or (wanted,)
    return " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)


def require_at_least(section: Section, minimum: int, *names: str) -> None:
    """Raise ValueError unless each named number that is set is finite and not below the minimum.

    Integers must be below 2^31 too, which is what the programs below take.
    """
    for name in names:
        value = getattr(section, name)
        if value is not None and not minimum <= value < math.inf:
            raise ValueError(f"`{name}` must be at least {minimum}. Received: {name}={value}.")
        if name != "seed" and isinstance(value, int) and value >= 2**31:
            raise ValueError(f"`{name}` must be below 2^31. Received: {name}={value}.")


def require_seed(section: Section) -> None:
    """Raise ValueError unless the field `seed` is one that every generator takes."""
    require_at_least(section, 0, "seed")
    seed = dataclasses.asdict(section)["seed"]
    if seed >= 2**32:
        raise ValueError(f"`seed` must be below 2^32. Received: seed={seed}.")


def require_fraction(section: Section, *names: str) -> None:
    """Raise ValueError unless each named number that is set lies in [0, 1)."""
    for name in names:
        value = getattr(section, name)
        if value is not None and not 0 <= value < 1:
            raise ValueError(f"`{name}` must be at least 0 and below 1. Received: {name}={value}.")


def require_choice(section: Section, name: str, choices: Sequence[str]) -> None:
    """Raise ValueError unless the named string, where set, is one of the choices."""
    value = getattr(section, name)
    if value is not None and value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r}.")


def require_together(section: Section, first: str, second: str) -> None:
    """Raise ValueError where one of two fields is set and the other is not."""
    values = (getattr(section, first), getattr(section, second))
    if (values[0] is None) != (values[1] is None):
        raise ValueError(
            f"`{first}` and `{second}` must be given together. "
            f"Received: {first}={values[0]!r}, {second}={values[1]!r}."
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


# Learned positions are not among them: their number would be one more limit of a run's lengths.
POSITIONS = ("sinusoidal", "rotary", "relative")
NORMALIZATIONS = ("layer", "rms")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(Section):
    """The sizes and choices of a Transformer that a run may set; the defaults are the paper's base model.

    The fields have the names of the arguments of `kt.Transformer`.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range or two values do not fit together.
    """

    source_vocabulary_size: int
    """Number of source token ids, special tokens included."""
    target_vocabulary_size: int
    """Number of target token ids, special tokens included."""
    num_encoder_layers: int = 6
    """Layers of the encoder."""
    num_decoder_layers: int = 6
    """Layers of the decoder."""
    hidden_dim: int = 512
    """Width `d` of the embeddings and of every layer's output."""
    num_heads: int = 8
    """Attention heads `h`; each is `hidden_dim / num_heads` wide."""
    intermediate_dim: int = 2048
    """Inner width `f` of the feed-forward layers."""
    dropout: float = 0.1
    """Rate on embeddings and on the output of each sub-layer."""
    attention_dropout: float = 0.0
    """Rate on the attention weights."""
    intermediate_dropout: float = 0.0
    """Rate inside the feed-forward layers."""
    activation: str = "relu"
    """Keras name of the activation inside the feed-forward layers."""
    gated: bool = False
    """Gate the feed-forward layers (Shazeer 2020)."""
    norm_first: bool = False
    """Normalize before each sub-layer (pre-norm) instead of after it, as the paper does."""
    normalization: str = "layer"
    """`layer` or `rms`."""
    num_key_value_heads: int | None = None
    """Heads of keys and values, a divisor of `num_heads`; as many as `num_heads` if None."""
    positions: str = "sinusoidal"
    """How the order of tokens is known: `sinusoidal`, as in the paper, `rotary` (Su et al. 2021) or
    `relative` (Raffel et al. 2020)."""
    share_embeddings: bool = False
    """Use one embedding for source and target; the two vocabularies must be the same."""
    tie_output: bool = True
    """Use the target embedding as the kernel of the output projection."""

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        check_options(self)
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                "`num_heads` must divide `hidden_dim`. "
                f"Received: num_heads={self.num_heads}, hidden_dim={self.hidden_dim}."
            )
        if self.num_key_value_heads is not None and self.num_heads % self.num_key_value_heads:
            raise ValueError(
                "`num_key_value_heads` must divide `num_heads`. "
                f"Received: num_key_value_heads={self.num_key_value_heads}, num_heads={self.num_heads}."
            )
        if self.positions == "rotary" and self.hidden_dim // self.num_heads % 2:
            raise ValueError(
                "`hidden_dim / num_heads` must be even for positions='rotary'. "
                f"Received: hidden_dim={self.hidden_dim}, num_heads={self.num_heads}."
            )
        if self.share_embeddings and self.source_vocabulary_size != self.target_vocabulary_size:
            raise ValueError(
                "`share_embeddings` needs vocabularies of one size. "
                f"Received: source_vocabulary_size={self.source_vocabulary_size}, "
                f"target_vocabulary_size={self.target_vocabulary_size}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """Which model a run trains: a preset, and what differs from it.

    The vocabulary sizes are missing, since they are known only when the vocabularies are. Every field
    but `preset` means what it does in `TransformerConfig`; None leaves the value to the preset.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range.

    Example:
        >>> ModelConfig(preset="base", num_heads=16).overrides()
        {'num_heads': 16}
    """

    preset: str = "tiny"
    """Name of a preset of `kt.Transformer.from_preset`."""
    initial_model: str | None = None
    """Directory of an earlier run, or another saved translator, whose vocabularies, architecture and weights
    this run begins with. Rates of dropout may differ; `preset` and the section on vocabularies, but for
    subword dropout, do not count then."""
    num_encoder_layers: int | None = None
    """Layers of the encoder."""
    num_decoder_layers: int | None = None
    """Layers of the decoder."""
    hidden_dim: int | None = None
    """Model width."""
    num_heads: int | None = None
    """Attention heads."""
    intermediate_dim: int | None = None
    """Inner width of the feed-forward layers."""
    dropout: float | None = None
    """Rate on embeddings and sub-layer outputs."""
    attention_dropout: float | None = None
    """Rate on the attention weights."""
    intermediate_dropout: float | None = None
    """Rate inside the feed-forward layers."""
    activation: str | None = None
    """Activation inside the feed-forward layers."""
    gated: bool | None = None
    """Gated feed-forward layers."""
    norm_first: bool | None = None
    """Pre-norm instead of post-norm."""
    normalization: str | None = None
    """Layer or RMS normalisation."""
    num_key_value_heads: int | None = None
    """Heads of keys and values."""
    positions: str | None = None
    """How the order of tokens is known."""
    share_embeddings: bool | None = None
    """One embedding for source and target."""
    tie_output: bool | None = None
    """Target embedding as output kernel."""

    def __post_init__(self) -> None:
        """Check every value that is set."""
        super().__post_init__()
        check_options(self)
        if self.initial_model == "":
            raise ValueError("`initial_model` must name a directory. Received: initial_model=''.")

    def overrides(self) -> dict[str, Value]:
        """Return the values that differ from the preset, by the names of `TransformerConfig`."""
        values = dataclasses.asdict(self)
        del values["preset"], values["initial_model"]
        return {name: value for name, value in values.items() if value is not None}


def check_options(config: TransformerConfig | ModelConfig) -> None:
    """Check each number and each name that both configurations have; raises ValueError."""
    sizes = [
        name for name in dataclasses.asdict(config) if name.endswith(("_size", "_layers", "_dim", "_heads"))
    ]
    require_at_least(config, 1, *sizes)
    require_fraction(config, "dropout", "attention_dropout", "intermediate_dropout")
    require_choice(config, "normalization", NORMALIZATIONS)
    require_choice(config, "positions", POSITIONS)


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

AnySection = TypeVar("AnySection", bound=Section)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table of a TOML file; raises InputError if it cannot be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors mark UTF-8
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise InputError(f"{path}: is not valid TOML: {error}.") from error


def parse_json(text: str | bytes, *, origin: str) -> Any:
    """Return the value of a JSON text; raises InputError that names the origin if it is none."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{origin}: is not valid JSON: {error}.") from error


def build(kind: type[AnySection], table: object, *, where: str) -> AnySection:
    """Make a configuration from a table that a user wrote.

    Args:
        kind: the class of the configuration.
        table: its values by field name; a field that is missing takes its default.
        where: the file, and the section in it, for messages.

    Raises:
        InputError: if the table is none, has a field that the configuration does not have, or has a
            value of the wrong type or range.
    """
    known = field_names(kind)
    if not isinstance(table, Mapping):
        raise InputError(f"{where}: must be a table of fields. Received: {table!r}.")
    for name in table:
        if name not in known:
            raise InputError(f"{where}: unknown field {name!r}. Known fields: {', '.join(known)}.")
    try:
        return kind(**table)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}") from error


def changed(section: AnySection, values: Mapping[str, object]) -> AnySection:
    """Return a copy with those of the values that the configuration has a field for.

    Raises:
        InputError: if a value is of the wrong type or range.
    """
    own = {name: value for name, value in values.items() if name in field_names(type(section))}
    try:
        return dataclasses.replace(section, **own)
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error


SCHEDULES = ("constant", "cosine", "inverse_square_root", "noam")
BLEU_TOKENIZATIONS = ("13a", "none", "intl", "char")
MONITORS = (
    "loss",
    "bleu",
    "chrf",
    "exact_match",
    "word_error_rate",
    "token_error_rate",
    "character_error_rate",
)
ENGINES = ("cores", "mirrored", "tpu", "data_parallel", "model_parallel")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig(Section):
    """The recipe of `fit`.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range or a name is unknown.
    """

    epochs: int = 10
    """Passes over the training pairs."""
    schedule: str = "inverse_square_root"
    """Learning rate after the warm-up: "cosine", "inverse_square_root" or "noam"; "constant" has none."""
    peak_learning_rate: float = 1e-3
    """Highest learning rate, reached at the end of the warm-up; "noam" has its own, by the model's width."""
    warmup_steps: int = 1000
    """Updates in which the learning rate rises to its peak; under "cosine" at most a fifth of all."""
    label_smoothing: float = 0.1
    """Probability spread over the wrong tokens."""
    r_drop: float = 0.0
    """How much two passes with other dropout must agree (R-Drop's alpha); 0 for one pass."""
    z_loss: float | None = None
    """How much the logarithm of the softmax's denominator is drawn to 0, so that logits stay small; by
    default 1e-4 in mixed precision and 0 else."""
    clip_norm: float | None = None
    """Highest norm of all gradients together."""
    gradient_accumulation_steps: int = 1
    """Batches of one update; its tokens count alike, whichever batch they are in."""
    ema_momentum: float | None = None
    """Part of the moving average of the weights that stays at each update; the average is then used,
    but for the mean of `average_last`, which is of the weights as they were."""
    average_last: int | None = None
    """How many of the last checkpoints are averaged in the end, instead of taking the best one."""
    monitor: str = "loss"
    """What chooses the best epoch: "loss" of the validation pairs, or a metric of their decoded answers."""
    monitored_pairs: int = 500
    """Most validation pairs that are decoded after each epoch, where `monitor` is such a metric."""
    patience: int | None = None
    """Stop after so many epochs in a row that are no better."""
    precision: str = "float32"
    """Keras dtype policy: "float32", "mixed_bfloat16" or "mixed_float16"."""
    distribute: str | None = None
    """Engine that trains on several cores or devices: "cores", "mirrored" or "tpu" on TensorFlow,
    "data_parallel" or "model_parallel" on JAX; see `training.distributed`."""
    seed: int = 0
    """Seed of the initial weights and of dropout."""
    deterministic: bool = False
    """Whether TensorFlow keeps to one order of computing, so that equal runs end in equal bits; slower."""

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        require_choice(self, "schedule", SCHEDULES)
        require_choice(self, "precision", PRECISIONS)
        require_choice(self, "monitor", MONITORS)
        require_choice(self, "distribute", ENGINES)
        require_fraction(self, "label_smoothing", "ema_momentum")
        require_at_least(self, 1, "epochs", "warmup_steps", "gradient_accumulation_steps")
        require_at_least(self, 1, "average_last", "monitored_pairs", "patience")
        require_at_least(self, 0, "r_drop", "z_loss")
        require_seed(self)
        for name in ("peak_learning_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"`{name}` must be above 0 and finite. Received: {name}={value}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodingConfig(Section):
    """The search for an answer, and how answers are scored.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if a value is out of its range.
    """

    beam_size: int = 4
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 1.0
    """Exponent of the length a score is divided by; 0 prefers short answers."""
    max_target_length: int = 256
    """Longest answer in tokens, the end token included."""
    batch_size: int = 64
    """Sentences decoded together."""
    bleu_tokenize: str = "13a"
    """sacreBLEU's tokenization: "13a", "intl", "char", or "none" for text that is tokenized already."""

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        require_choice(self, "bleu_tokenize", BLEU_TOKENIZATIONS)
        require_at_least(self, 1, "beam_size", "batch_size")
        require_at_least(self, 0, "length_penalty")
        require_at_least(self, 2, "max_target_length")


# The tables of a configuration file, by name.
SECTIONS: dict[str, type[Section]] = {
    "data": DataConfig,
    "vocabulary": VocabularyConfig,
    "model": ModelConfig,
    "training": TrainingConfig,
    "decoding": DecodingConfig,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig(Section):
    """Everything that decides the outcome of `keras-transformer train`.

    Paths are relative to the working directory, in a file as on the command line.

    Raises:
        TypeError: if a value is not of the type its field declares.
        ValueError: if the name is no plain directory name or a directory is empty.

    Example:
        >>> RunConfig(name="de_en").override({"epochs": 3, "beam_size": None}).training.epochs
        3
    """

    name: str = "model"
    """Name of the model: its directory in `run_directory` and in `export_directory`."""
    run_directory: str = "runs"
    """Where checkpoints, logs and plots go."""
    export_directory: str = "saved_models"
    """Where the served versions go."""
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    """The pairs."""
    vocabulary: VocabularyConfig = dataclasses.field(default_factory=VocabularyConfig)
    """The tokens."""
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    """The sizes."""
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    """The recipe."""
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)
    """The search."""

    def __post_init__(self) -> None:
        """Check the names, and what two sections must agree on."""
        super().__post_init__()
        if self.name in ("", ".", "..") or any(character in self.name for character in "/\\\0"):
            raise ValueError(
                f"`name` must be the name of a directory, no path. Received: name={self.name!r}."
            )
        for field in ("run_directory", "export_directory"):
            if not getattr(self, field):
                raise ValueError(f"`{field}` must not be empty. Received: {field}=''.")
        rates = (self.vocabulary.subword_dropout, self.vocabulary.target_subword_dropout)
        if self.data.packed_length is not None and any(rates):
            raise ValueError(
                "Packed rows are filled once: `packed_length` leaves no room for subword dropout. Received: "
                f"packed_length={self.data.packed_length}, subword_dropout={rates[0]}, "
                f"target_subword_dropout={rates[1]}."
            )

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> "RunConfig":
        """Read a TOML file: `name` and the directories first, then a table for each section.

        Raises:
            InputError: if the file cannot be read, or a field is unknown or holds a wrong value.
        """
        return cls.from_mapping(read_toml(Path(path)), origin=str(path))

    @classmethod
    def from_json(cls, text: str | bytes, *, origin: str = "JSON") -> "RunConfig":
        """Read what `to_json` wrote; `origin` names the file in messages. Raises InputError."""
        return cls.from_mapping(parse_json(text, origin=origin), origin=origin)

    @classmethod
    def from_mapping(cls, table: object, *, origin: str) -> "RunConfig":
        """Build a run from nested mappings; `origin` names the file in messages. Raises InputError."""
        if not isinstance(table, Mapping):
            return build(cls, table, where=origin)  # refuses it
        return build(
            cls, {name: _section(name, value, origin) for name, value in table.items()}, where=origin
        )

    def to_json(self) -> str:
        """Return every value as indented JSON that ends in a line break."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def override(self, flags: Mapping[str, Value | None]) -> "RunConfig":
        """Return a copy with the values of command-line flags.

        Args:
            flags: values by field name. A name that several sections have, such as `seed`, is set in each
                of them. None means that the flag was not given.

        Raises:
            InputError: if a value is of the wrong type or range.
            ValueError: if no section has a field of that name.
        """
        given = {name: value for name, value in flags.items() if value is not None}
        _require_known(given)
        sections = {name: changed(getattr(self, name), given) for name in SECTIONS}
        return changed(self, {**given, **sections})


def _section(name: str, value: object, origin: str) -> object:
    """Return the section that a table of this name stands for; any other value as it is."""
    return build(SECTIONS[name], value, where=f"{origin}: [{name}]") if name in SECTIONS else value


def _require_known(flags: Mapping[str, Value]) -> None:
    """Raise ValueError for the first flag that sets no field."""
    kinds: list[type[Section]] = [RunConfig, *SECTIONS.values()]
    known = {name for kind in kinds for name in field_names(kind)} - SECTIONS.keys()
    for name in flags:
        if name not in known:
            raise ValueError(
                f"No section has this field. Received: {name!r}. Known: {', '.join(sorted(known))}."
            )


DATES = RunConfig(
    name="dates",
    data=DataConfig(pairs="dates", tokens_per_batch=2048, max_source_length=64, max_target_length=16),
    vocabulary=VocabularyConfig(
        kind="character", size=1000, shared=False, lowercase=True, normalize_spaces=True
    ),
    model=ModelConfig(
        preset="tiny",
        num_encoder_layers=2,
        num_decoder_layers=2,
        hidden_dim=64,
        num_heads=4,
        intermediate_dim=256,
        dropout=0.0,
        norm_first=True,
    ),
    training=TrainingConfig(
        epochs=4, schedule="cosine", peak_learning_rate=2e-3, warmup_steps=500, label_smoothing=0.05
    ),
    decoding=DecodingConfig(max_target_length=16, beam_size=1, length_penalty=0.0, batch_size=250),
)


def run_config(config: str | None, flags: Mapping[str, Any]) -> RunConfig:
    """Decide what a run does.

    Args:
        config: path of a TOML file, or None.
        flags: values by field name; None where a flag was not given.

    Returns:
        The configuration; that of the built-in task if nothing names pairs, with the sizes of a preset if
        one is named.

    Raises:
        InputError: the file or a value is wrong.
    """
    if config is not None:
        return RunConfig.from_toml(config).override(flags)
    if flags.get("pairs") in (None, "dates") and not flags.get("source") and not flags.get("target"):
        sizes = DATES.model if flags.get("preset") is None else ModelConfig()
        return dataclasses.replace(DATES, model=sizes).override(flags)
    return RunConfig().override(flags)
