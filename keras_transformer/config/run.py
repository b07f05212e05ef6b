"""A whole run in one object."""

import dataclasses
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from keras_transformer.config.data import DataConfig, VocabularyConfig
from keras_transformer.config.model import ModelConfig
from keras_transformer.config.reading import build, changed, parse_json, read_toml
from keras_transformer.config.section import Section, Value, field_names
from keras_transformer.config.training import DecodingConfig, TrainingConfig

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
