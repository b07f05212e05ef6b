"""Command line options made from the fields of a run's configuration.

The configuration needs Keras and TensorFlow, which are slow to import. So that `train --help` and mistakes
in options need neither, `run_options.json` has the section, type and help of each field. After you change a
field, regenerate the file: `python -m keras_transformer.cli.run_options`. A test compares them.
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

# The options that a beginner needs, in the order of the help. The rest is grouped by the TOML tables.
_MOST_USED = (
    *("source", "target", "pairs", "name", "task"),
    *("preset", "epochs", "size", "resume", "config"),
)
_LEAST_USED = ("overwrite", "export", "help")
_SECTIONS = ("data", "vocabulary", "model", "training", "decoding", "")

# Names of the flags that turn a switch off. All others are called --no-...
_OPPOSITES = {
    "shared": "separate",
    "lowercase": "keep-case",
    "norm_first": "norm-last",
    "share_embeddings": "separate-embeddings",
    "deterministic": "nondeterministic",
}


class RunVerb(Verb):
    """Command whose options are the fields of a run, grouped in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        fields = run_fields()
        titles = ("Most used", *map(_title, _SECTIONS))
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        for parameter in sorted(self.get_params(ctx), key=_rank):
            name = _name(parameter)
            field = fields.get(name)
            if name in _LEAST_USED:
                title = _title("")
            # An option of the command itself may have the name of a field, but has another help.
            elif field is None or name in _MOST_USED or getattr(parameter, "help", None) != field["help"]:
                title = "Most used"
            else:
                title = _title(field["section"])
            if record := parameter.get_help_record(ctx):
                groups[title].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _name(parameter: click.Parameter) -> str:
    # From the flag: `parameter.name` of --help depends on the version of click.
    return parameter.opts[-1].lstrip("-").replace("-", "_")


def _rank(parameter: click.Parameter) -> int:
    name = _name(parameter)
    return _MOST_USED.index(name) if name in _MOST_USED else len(_MOST_USED)


def _title(section: str) -> str:
    return f"Table [{section}] of the TOML file" if section else "Other options"


def run_fields() -> dict[str, dict[str, Any]]:
    """Return for each field its `section`, `type`, `help`, and whether it takes `multiple` values."""
    fields: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return fields


def run_options(command: _Command, names: Container[str] | None = None) -> _Command:
    """Add an option for each field, or only for those in `names`. An option not given is None."""
    # In reverse order: click shows the last added option first.
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
    # As in the configuration: one value, a list of values, or None if the option is not given.
    return list(values) if len(values) > 1 else next(iter(values), None)


def described_fields() -> dict[str, dict[str, object]]:
    """Build the content of `run_options.json` from the configuration."""
    from keras_transformer.runs import RunConfig

    fields: dict[str, dict[str, object]] = {}
    for name, option in RunConfig.options().items():
        kind = _kind(option.annotation)
        # Only the help shows the default: an option not given stays None, so that it overrides no file.
        has_default = option.default is not None and kind != "bool"
        text = f"{option.text}  [default: {option.default}]" if has_default else option.text
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
    """Return the name of a type, or the choices of the option."""
    origin = get_origin(annotation)
    if origin is Literal:
        return [str(choice) for choice in get_args(annotation)]
    # A union joins the choices of several tasks, or a type and None. The configuration checks ranges.
    if origin in (Annotated, Union, types.UnionType):
        kinds = [_kind(each) for each in get_args(annotation)]
        choices = [choice for kind in kinds if isinstance(kind, list) for choice in kind]
        return [*dict.fromkeys(choices)] or kinds[0]
    return next((name for name, kind in _TYPES.items() if kind is annotation), "str")


if __name__ == "__main__":
    _FILE.write_text(json.dumps(described_fields(), indent=1) + "\n", encoding="utf-8")
