"""Flags of a run, made from the fields of its configuration.

The configuration needs Keras and TensorFlow. `run_options.json` holds what the flags need to know of each
field, so that `train --help` and a wrong flag need neither. After a change of a field, write it again:
`python -m keras_transformer.cli.run_options`. A test compares.
"""

import json
import types
from collections.abc import Callable, Container
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import click

from keras_transformer.cli.terminal import Verb

_Command = TypeVar("_Command", bound=Callable[..., object])

_FILE = Path(__file__).with_name("run_options.json")
_TYPES: dict[str, type] = {each.__name__: each for each in (bool, float, int, str)}

# What a beginner needs of the fields; the others follow under the tables of the TOML file.
_FIRST = ("task", "pairs", "source", "target", "name", "preset", "epochs")
_SECTIONS = ("data", "vocabulary", "model", "training", "decoding", "")

# What turns a switch off, where it has a name: --no-... is the other one.
_OPPOSITES = {
    "shared": "separate",
    "lowercase": "keep-case",
    "norm_first": "norm-last",
    "share_embeddings": "separate-embeddings",
    "deterministic": "nondeterministic",
}


class RunVerb(Verb):
    """A command with fields of a run, whose help groups them."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        fields = run_fields()
        titles = ("Begin with", *map(_title, _SECTIONS))
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        for parameter in self.get_params(ctx):
            field = fields.get(parameter.name or "")
            # A flag of the command alone may have the name of a field.
            if field is None or getattr(parameter, "help", None) != field["help"] or parameter.name in _FIRST:
                title = "Begin with"
            else:
                title = _title(field["section"])
            if record := parameter.get_help_record(ctx):
                groups[title].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _title(section: str) -> str:
    return f"Table [{section}] of the TOML file" if section else "Directories"


def run_fields() -> dict[str, dict[str, Any]]:
    """Return the `section`, the `type`, the `help` of each field, and whether it takes `multiple` values."""
    fields: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return fields


def run_options(command: _Command, names: Container[str] | None = None) -> _Command:
    """Add a flag for each field of a run, or for those of some names, which is None where it is not given."""
    # Reversed, since click puts what is added last at the top of the help.
    for name, field in reversed(run_fields().items()):
        if names is not None and name not in names:
            continue
        flag, kind = f"--{name.replace('_', '-')}", field["type"]
        if kind == "bool":
            flag = f"{flag}/--{_OPPOSITES.get(name, f'no-{flag[2:]}')}"
        choices = click.Choice(kind) if isinstance(kind, list) else _TYPES[kind]
        command = click.option(
            *(flag, name),
            type=None if kind == "bool" else choices,
            default=None,
            help=field["help"],
            multiple=field["multiple"],
            callback=_one_or_several if field["multiple"] else None,
        )(command)
    return command


def _one_or_several(_: click.Context, _flag: click.Parameter, values: tuple[str, ...]) -> object:
    # As the configuration has them: a name, a list of names, or None where the flag is not given.
    return list(values) if len(values) > 1 else next(iter(values), None)


def described_fields() -> dict[str, dict[str, object]]:
    """Return what the flags need to know of each field: the content of the file."""
    from keras_transformer.runs import RunConfig

    fields: dict[str, dict[str, object]] = {}
    for name, option in RunConfig.options().items():
        kind = _kind(option.annotation)
        # A default in the text alone: a flag that is not given is None, so that it overrides no file.
        has_default = option.default is not None and kind != "bool"
        text = f"{option.text}  [{option.default}]" if has_default else option.text
        fields[name] = {
            "section": option.sections[0],
            "type": kind,
            "multiple": _takes_several(option.annotation),
            "help": text.replace("`", ""),
        }
    return fields


def _takes_several(annotation: object) -> bool:
    return get_origin(annotation) is list or any(map(_takes_several, get_args(annotation)))


def _kind(annotation: object) -> str | list[str]:
    """Return the name of a type, or the choices of the flag."""
    origin = get_origin(annotation)
    if origin is Literal:
        return [str(choice) for choice in get_args(annotation)]
    # A union is one of the choices of several tasks, or one with None, which comes last; ranges are checked
    # with the rest of the configuration.
    if origin in (Annotated, Union, types.UnionType):
        kinds = [_kind(each) for each in get_args(annotation)]
        choices = [choice for kind in kinds if isinstance(kind, list) for choice in kind]
        return [*dict.fromkeys(choices)] or kinds[0]
    return next((name for name, kind in _TYPES.items() if kind is annotation), "str")


if __name__ == "__main__":
    _FILE.write_text(json.dumps(described_fields(), indent=1) + "\n", encoding="utf-8")
