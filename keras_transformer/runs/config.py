"""Configuration of a run: defaults, overridden by a TOML file, overridden by named options."""

import ast
import functools
import inspect
import operator
import re
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, get_type_hints

from keras.optimizers.schedules import CosineDecay, LearningRateSchedule
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)

from keras_transformer._files import as_path, read_file, read_table
from keras_transformer.errors import InputError
from keras_transformer.models.config import PRESETS, TransformerConfig
from keras_transformer.training.schedules import InverseSquareRootSchedule, NoamSchedule
from keras_transformer.types import Count

Value: TypeAlias = str | int | float | bool | list[str]

# Extra key of a run's config.json: checksums of its values and of other files.
CHECKSUMS = "checksums"
_MAX_TOML = 2**20  # bytes

# As for every seed of this package.
Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Weight: TypeAlias = Annotated[float, Field(ge=0)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]


def _expanded(name: str) -> str:
    """Return a name of a file with the home directory in place of `~/`, as a shell writes it."""
    return str(Path(name).expanduser()) if name == "~" or name.startswith("~/") else name


# Not empty: an unset shell variable must not become the working directory.
FileName: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$"), AfterValidator(_expanded)]
Files: TypeAlias = FileName | Annotated[list[FileName], Field(min_length=1)]
TokenizerKind: TypeAlias = Literal["character", "subword", "whitespace"]


class _Section(BaseModel):
    """Frozen section of typed options. The docstring under a field is the help of its flag."""

    # Each option is declared once, with type, range, default and help, so that Python, TOML and flags share
    # checks and messages. Unknown names are errors: a misspelled field would silently keep its default.
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class _DataSection(_Section):
    """Data options of every task. Each task adds the options for its files."""

    validation_fraction: Fraction = 0.05
    """Fraction of the training data to hold out if there are no validation data."""
    tokens_per_batch: Count | None = None
    """Maximum number of tokens or frames per batch on each side, with padding. The default grows with the
    corpus, from 512 to 4096."""
    seed: Seed = 0
    """Random seed of the validation split, the order of the batches, the sample of a large corpus, and the
    built-in dates."""

    @model_validator(mode="after")
    def _check_validation(self) -> "_DataSection":
        origins = [name for name in type(self).model_fields if name.startswith("validation_")]
        if not any(getattr(self, name) for name in origins):
            raise ValueError(
                "`validation_fraction` must be above 0; some examples must choose the best checkpoint. "
                f"Received: validation_fraction={self.validation_fraction}."
            )
        return self


class _VocabularySection(_Section):
    """Vocabulary options."""

    kind: TokenizerKind | None = None
    """Tokenizer kind. Defaults to `character` for short texts of digits, codes or single words, else to
    `subword`."""
    size: Annotated[int, Field(ge=5, lt=2**31)] | None = None
    """Maximum vocabulary size, including the four special tokens. Defaults to 8000; for subwords, to one
    entry per 400 characters if that is less."""
    lowercase: bool = False
    """Lowercase all texts, including the outputs."""
    normalize_spaces: bool = False
    """Character vocabularies only: collapse runs of spaces, and strip texts."""
    normalization_rule: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    """Subword vocabularies only: SentencePiece's rule for characters. `nmt_nfkc` and `nfkc` write `m2` for
    `m²`, and English commas for Chinese ones; `identity` keeps all characters."""


# Not a `TransformerConfig`, because the vocabulary sizes are unknown until the vocabularies are trained.
class _ModelSection(_Section, extra="allow"):
    """A preset, and any fields of `TransformerConfig` that override it."""

    # Fields that follow from the vocabularies, the data and the length limits of the run.
    decided_elsewhere: ClassVar[tuple[str, ...]] = (
        *("source_vocabulary_size", "target_vocabulary_size", "encoder_feature_dim", "source_convolutions"),
        *("max_source_positions", "max_length", "num_layers"),
    )
    decided_elsewhere_of_one_stack: ClassVar[tuple[str, ...]] = (
        *(name for name in decided_elsewhere if name != "num_layers"),
        *("num_encoder_layers", "num_decoder_layers", "share_embeddings", "share_positions"),
    )

    preset: Literal["tiny", "small", "base", "big"] = "tiny"
    """Model size, and the defaults of the other model options."""
    initial_model: FileName | None = None
    """Directory of a run or imported model to fine-tune. Training starts from its vocabularies, architecture
    and weights. Only dropout rates and `rematerialize` may differ."""

    @model_validator(mode="after")
    def _check(self) -> "_ModelSection":
        _model_changes(type(self)).model_validate(self.changes)
        if self.initial_model is None:  # its sizes are not known yet
            self.transformer()
        return self

    @classmethod
    def types(cls) -> dict[str, Any]:
        """Return the types of the `TransformerConfig` fields that a run may set, by name."""
        types = get_type_hints(TransformerConfig)
        return {name: kind for name, kind in types.items() if name not in cls.decided_elsewhere}

    @property
    def changes(self) -> dict[str, object]:
        return self.model_extra or {}

    def transformer(self, longest: int = 1, **decided: object) -> TransformerConfig:
        # Explicit options win over those that follow from the vocabularies, such as `share_embeddings`.
        options = {**PRESETS[self.preset].options(), **decided, **self.changes}
        options["max_length"] = longest if options["positions"] == "learned" else None
        return TransformerConfig(**options)

    @classmethod
    def of_one_stack(cls, known: TransformerConfig) -> dict[str, Any]:
        """Return the options that apply to a model with a single stack."""
        names = {*cls.types(), "num_layers", "max_length"}
        return {name: value for name, value in known.options().items() if name in names}


# Only checks types. `_ModelSection` stores just the given fields, so config.json has no others.
@functools.cache
def _model_changes(section: type[_ModelSection]) -> type[_Section]:
    fields: dict[str, Any] = {name: (kind | None, None) for name, kind in section.types().items()}
    return create_model("_ModelChanges", __base__=_Section, **fields)


class _TrainingSection(_Section):
    """Training options."""

    epochs: Count | None = None
    """Passes over the training data. Defaults to the number that gives 3000 updates, at least 10 and at most
    100."""
    schedule: Literal["constant", "cosine", "inverse_square_root", "noam"] = "inverse_square_root"
    """Learning rate schedule. All except `constant` start with a warm-up."""
    peak_learning_rate: Positive = 1e-3
    """Highest learning rate, at the end of the warm-up. `noam` ignores it and uses `hidden_dim` instead."""
    warmup_steps: Count | None = None
    """Number of warm-up updates. Defaults to a fifth of all updates, at most 1000. `cosine` never uses more
    than a fifth."""
    label_smoothing: Fraction = 0.1
    """Probability mass to spread over the vocabulary. It raises the perplexity, so `generate` defaults to
    0."""
    r_drop: Weight = 0.0
    """Weight of the R-Drop consistency loss. 0 disables it."""
    z_loss: Weight | None = None
    """Weight of the z-loss, which keeps logits small. Defaults to 1e-4 in mixed precision, else 0."""
    clip_norm: Positive | None = None
    """Maximum global norm of the gradients. Defaults to no clipping."""
    gradient_accumulation_steps: Count = 1
    """Number of batches per update. All tokens of an update have the same weight; with task `classify`, all
    batches."""
    ema_momentum: Fraction | None = None
    """Decay of a moving average of the weights (EMA), used for validation and the final model. Defaults to no
    average."""
    average_last: Count | None = None
    """Instead of using the best epoch, average the weights of this many last epochs (at most half of all).
    The moving average of `ema_momentum` is then not used."""
    monitor: str = "loss"
    """Validation metric that selects the best epoch. Other metrics than `loss` need task `translate` or
    `frames`."""
    patience: Count | None = None
    """Stop after this many epochs without improvement. Defaults to no early stopping."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras dtype policy."""
    distribute: Literal["cores", "mirrored", "tpu", "data_parallel", "model_parallel"] | None = None
    """Train on all cores or devices. TensorFlow: `cores`, `mirrored`, `tpu`. JAX: `data_parallel`,
    `model_parallel`."""
    seed: Seed = 0
    """Random seed of initial weights, dropout and subword dropout. In a TOML file, `[data]` has another
    `seed`; the flag sets both."""
    deterministic: bool = False
    """Use deterministic TensorFlow operations, for bit for bit identical runs. Slower."""

    def learning_rate(
        self, num_steps: int, warmup_steps: int, hidden_dim: int
    ) -> float | LearningRateSchedule:
        if self.schedule == "constant":
            return self.peak_learning_rate
        if self.schedule == "inverse_square_root":
            return InverseSquareRootSchedule(self.peak_learning_rate, warmup_steps)
        if self.schedule == "noam":
            return NoamSchedule(hidden_dim, warmup_steps)
        warmup_steps = min(warmup_steps, num_steps // 5)  # leave most of a short run for the decay
        return CosineDecay(
            0.0,
            max(num_steps - warmup_steps, 1),
            warmup_target=self.peak_learning_rate,
            warmup_steps=warmup_steps,
        )


# Options whose defaults depend on the number of training tokens.
_CHOSEN = {"tokens_per_batch": "data", "epochs": "training", "warmup_steps": "training"}
_DEFAULT_TASK = "translate"


class _Option(NamedTuple):
    # An option that can be set by name, and the sections that contain it.
    sections: tuple[str, ...]
    annotation: Any
    default: object
    text: str


class RunConfig(_Section, strict=False):
    """Complete configuration of a run.

    A TOML file has `name`, `task` and the directories at its top, then the tables `[data]`, `[vocabulary]`,
    `[model]`, `[training]` and `[decoding]`. The fields of the tables depend on `task`, which defaults to
    translation. Paths are relative to the working directory.

    Raises:
        ValueError: If a value has the wrong type or is out of range, or two values contradict each other.

    Example:
        >>> RunConfig(name="de_en").override(epochs=3).training.epochs
        3
    """

    # Each task has a subclass, which redeclares the sections that it extends.
    tasks: ClassVar[dict[str, type["RunConfig"]]] = {}

    name: str = "model"
    """Model name. The run is written to `runs/NAME`, the export to `saved_models/NAME`."""
    run_directory: FileName = "runs"
    """Parent directory of runs (checkpoints, logs, reports)."""
    export_directory: FileName = "saved_models"
    """Parent directory of the exported SavedModels."""
    task: str = _DEFAULT_TASK
    """Task to train for."""
    data: _DataSection = _DataSection()
    vocabulary: _VocabularySection = _VocabularySection()
    model: _ModelSection = _ModelSection()
    training: _TrainingSection = _TrainingSection()

    # Like `pathlib.Path`: the base class creates an object of the matching subclass.
    def __new__(cls, **values: Any) -> Self:
        chosen: Any = RunConfig._of(values.get("task", _DEFAULT_TASK)) if cls is RunConfig else cls
        return super().__new__(chosen)

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        RunConfig.tasks[cls.model_fields["task"].default] = cls

    @staticmethod
    def _of(task: object, origin: str = "") -> type["RunConfig"]:
        if not isinstance(task, str) or task not in RunConfig.tasks:
            names = ", ".join(map(repr, RunConfig.tasks))
            raise InputError(f"{origin}`task` must be one of {names}. Received: task={task!r}.")
        return RunConfig.tasks[task]

    @model_validator(mode="after")
    def _check(self) -> "RunConfig":
        if self.name in ("", ".", "..") or any(character in self.name for character in "/\\\0"):
            raise ValueError(
                f"`name` must be the name of a directory, no path. Received: name={self.name!r}."
            )
        return self

    @classmethod
    def default(cls, **options: Value) -> "RunConfig":
        """Return a configuration from options, without a TOML file.

        If the options name no data, a translation run uses the built-in dates.
        """
        return cls._of(options.get("task", _DEFAULT_TASK)).start(options).override(**options)

    @classmethod
    def start(cls, options: Mapping[str, Value]) -> "RunConfig":
        """Return the configuration that `default` starts from, such as that of the built-in dates."""
        return cls()

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> "RunConfig":
        """Read a TOML file.

        Args:
            path: Path of the file; see `RunConfig` for its layout.

        Raises:
            InputError: If the file cannot be read, a field is unknown or a value is invalid.
        """
        path = as_path(path)
        content = read_file(path, limit=_MAX_TOML, may_be_empty=True)
        return _validated(read_table(content, f"{path}:", parse=tomllib.loads), f"{path}: ")

    @classmethod
    def from_json(cls, text: str | bytes, origin: str = "JSON") -> "RunConfig":
        """Read the `config.json` of a run; `origin` names the file in messages."""
        content = text if isinstance(text, bytes) else text.encode()
        table = read_table(content, f"{origin}:")
        table.pop(CHECKSUMS, None)  # checked when a run is resumed
        # The file has all values. Those that equal the defaults count as not set, as when the run began.
        config = _validated(table, f"{origin}: ")
        return config.model_validate(config.model_dump(exclude_defaults=True))

    def override(self, **options: Value) -> "RunConfig":
        """Return a copy with other values.

        Args:
            **options: Values by field name, whatever the section. A name that occurs in several sections,
                such as `seed`, is set in all of them.

        Raises:
            InputError: If a name is unknown or a value is invalid.
        """
        wanted = self._of(options.get("task", self.task))
        # Options that were not set stay so: another task may lack them, an initial model has its own values.
        table = {"task": wanted.model_fields["task"].default, **self.model_dump(exclude_unset=True)}
        known = wanted.options()
        for name, value in options.items():
            if name not in known:
                raise InputError(wanted._unknown(name, value))
            for section in known[name].sections:
                (table.setdefault(section, {}) if section else table)[name] = value
        return _validated(table)

    @classmethod
    def _unknown(cls, name: str, value: Value) -> str:
        others = sorted(task for task, each in RunConfig.tasks.items() if name in each.options())
        if not others:
            return f"No section has this field. Received: {name!r}. Known: {', '.join(cls.options())}."
        task = cls.model_fields["task"].default
        return (
            f"`{name}` is an option of task={' or '.join(map(repr, others))}. "
            f"Received: {name}={value!r}, task={task!r}."
        )

    @property
    def chosen(self) -> dict[str, int | None]:
        """Values of the options whose default depends on the corpus, by name; None if not set."""
        return {name: getattr(getattr(self, section), name) for name, section in _CHOSEN.items()}

    def completed(self, chosen: Mapping[str, int | None]) -> "RunConfig":
        """Return a copy in which the given choices fill in the options that are not set."""
        missing = {name: value for name, value in chosen.items() if self.chosen[name] is None}
        return self.override(**{name: value for name, value in missing.items() if value is not None})

    @classmethod
    def options(cls) -> dict[str, _Option]:
        """Return the options of the task by name, in section order. `RunConfig` has those of all tasks."""
        if cls is not RunConfig:
            return _options(cls)
        options = dict(_options(RunConfig.tasks[_DEFAULT_TASK]))
        tasks = {task: _options(each) for task, each in RunConfig.tasks.items() if task != _DEFAULT_TASK}
        for name in dict.fromkeys(name for own in tasks.values() for name in own):
            known = {_DEFAULT_TASK: options[name]} if name in options else {}
            each = {**known, **{task: own[name] for task, own in tasks.items() if name in own}}
            first, texts = next(iter(each.values())), {task: option.text for task, option in each.items()}
            # An option of one meaning that translation has too needs no tasks in its text.
            if known and len({*texts.values()}) == 1:
                parts = [first.text]
            else:
                parts = [
                    f"Task {', '.join(task for task in texts if texts[task] == text)}: {text}"
                    for text in dict.fromkeys(texts.values())
                ]
            annotations = dict.fromkeys(option.annotation for option in each.values())
            options[name] = first._replace(
                text=" ".join(parts), annotation=functools.reduce(operator.or_, annotations)
            )
        return options


@functools.cache
def _options(config: type[RunConfig]) -> dict[str, _Option]:
    options: dict[str, _Option] = {}
    for section, field in config.model_fields.items():
        if not isinstance(field.default, _Section):
            options[section] = _Option(("",), field.annotation, field.default, field.description or "")
            continue
        kind = type(field.default)
        # Fields of the task itself come first, such as its data files.
        own = {*kind.__annotations__}
        for name, inner in sorted(kind.model_fields.items(), key=lambda item: item[0] not in own):
            sections = (*(options[name].sections if name in options else ()), section)
            options[name] = _Option(sections, inner.annotation, inner.default, inner.description or "")
        if isinstance(field.default, _ModelSection):
            texts = _model_docstrings()
            for name, annotation in field.default.types().items():
                options[name] = _Option((section,), annotation, None, texts[name])
    return options


def _model_docstrings() -> dict[str, str]:
    # Python does not keep docstrings of fields, so read them from the source, as pydantic does.
    texts = {}
    for base in TransformerConfig.__mro__[:-1]:
        [definition] = ast.parse(inspect.getsource(base)).body
        for field, text in pairwise(getattr(definition, "body", ())):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                texts[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(text.value))
    return texts


def _validated(table: dict[str, Any], origin: str = "") -> RunConfig:
    config = RunConfig._of(table.get("task", _DEFAULT_TASK), origin)
    try:
        return config.model_validate(table)
    except ValidationError as error:
        raise InputError(f"{origin}{_one_line(error, config)}") from error


def _one_line(error: ValidationError, config: type[RunConfig]) -> str:
    # Report only the first error, in one line; pydantic's text takes several lines and a link for each.
    first, *further = error.errors(include_url=False)
    # In a union, the error of the member that has the type of the value says more.
    same = [each for each in further if each["loc"][:2] == first["loc"][:2]]
    fault = next((each for each in (first, *same) if not each["type"].endswith("_type")), first)
    # Stop at the field: which type of a union failed does not help the user.
    *sections, name = ("", *map(str, fault["loc"][:2]))
    where = "".join(f"[{section}]: " for section in sections if section)
    table = f"{where}[{name}]: " if name else ""
    if fault["type"] == "value_error":  # from a check above, with a complete message
        return f"{table}{fault['ctx']['error']}"
    if fault["type"] == "model_type":
        return f"{table}must be a table of fields. Received: {fault['input']!r}."
    if fault["type"] == "extra_forbidden":
        known = [key for key, option in config.options().items() if {*sections[1:]} & {*option.sections}]
        others = getattr(config.options().get(name), "sections", ())
        there = [section for section in others if section not in sections]
        hint = f"It is a field of {' and '.join(f'[{each}]' for each in there)}. " if there else ""
        return (
            f"{where}unknown field {name!r}. {hint}Known fields: {', '.join(known or config.model_fields)}."
        )
    wanted = re.sub("^(Input|String|List) should", "must", fault["msg"])
    return f"{where}`{name}` {wanted}. Received: {name}={fault['input']!r}."
