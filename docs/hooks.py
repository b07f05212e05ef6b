"""What `mkdocs` adds to the pages: tables of fields and presets, links into the checkout, checks."""

import importlib
import logging
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from example_pages import relink
from pydantic import BaseModel

import keras_transformer
from keras_transformer.errors import InputError
from keras_transformer.models import PRESETS
from keras_transformer.runs import RunConfig

FIELDS, SIZES = "<!-- the fields of RunConfig -->", "<!-- the presets -->"
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}
HEADER = "| field | type | default | range | meaning |\n|---|---|---|---|---|\n"

_LOG = logging.getLogger("mkdocs.hooks.reference")


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Warn of what must not be, which `--strict` makes an error: see the messages."""
    if re.search(r'<(script|link|img)[^>]+(src|href)="?https?:', output):
        _LOG.warning("%s loads something from another host", page.file.src_uri)
    room = page.file.src_uri.removeprefix("reference/").removesuffix(".md")
    if page.file.src_uri.startswith("reference/") and room in keras_transformer.__all__:
        for name in importlib.import_module(f"keras_transformer.{room}").__all__:
            if not re.search(rf'id="keras_transformer\.{room}\.(\w+\.)?{name}"', output):
                _LOG.warning("%s has no entry for %s", page.file.src_uri, name)
    return output


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the tables, and point links to files outside `docs` at their pages."""
    markdown = relink(markdown, page.file.src_uri)
    return markdown.replace(FIELDS, field_tables()).replace(SIZES, preset_table())


def field_tables() -> str:
    """Return a table for what stands before the sections, and one for each section that a task has."""
    tables: list[str] = []
    shown: set[type[BaseModel]] = set()
    # The default first, which has most of them.
    for task, config in sorted(RunConfig.tasks.items(), key=lambda item: item[0] != RunConfig().task):
        sections = {
            name: type(field.default)
            for name, field in config.model_fields.items()
            if isinstance(field.default, BaseModel)
        }
        if not tables:
            first = HEADER + "\n".join(row for row in rows(config) if row.split("`")[1] not in sections)
            tables.append(f"## Before the sections\n\n{first}")
        for name, section in sections.items():
            if section in shown:
                continue
            all_rows = [*rows(section), *(model_rows(section) if name == "model" else ())]
            table = f"{section.__doc__}\n\n{HEADER}" + "\n".join(all_rows)
            heading = f"[{name}]" if not shown else f'[{name}] of `task = "{task}"`'
            tables.append(f"## {heading}\n\n{table}")
        shown |= {*sections.values()}
    return "\n\n".join(tables)


def rows(section: type[BaseModel]) -> Iterator[str]:
    """Yield a row for each field that a section declares."""
    for name, field in section.model_fields.items():
        kind, span = described(field.annotation)
        span = ", ".join(filter(None, [span, *bounds(field.metadata)]))
        default = "" if field.default is None else f"`{toml(field.default)}`"
        yield f"| `{name}` | {kind} | {default} | {span} | {one_line(field.description)} |"


def model_rows(section: type[BaseModel]) -> Iterator[str]:
    """Yield a row for each field of `TransformerConfig` that a run may set; its range is tried."""
    for name, option in RunConfig.options().items():
        if option.sections != ("model",) or name in section.model_fields:
            continue
        kind, span = described(option.annotation)
        if kind in ("integer", "number"):
            number = int if kind == "integer" else float
            least = "at least 0" if taken(name, number(0)) else "at least 1" if number is int else "above 0"
            span = f"{least}, below 1" if number is float and not taken(name, 1.0) else least
        yield f"| `{name}` | {kind} | the preset's | {span} | {one_line(option.text)} |"


def taken(name: str, value: float) -> bool:
    """Return whether a run takes a value."""
    try:
        RunConfig().override(**{name: value})
    except InputError:
        return False
    return True


def preset_table() -> str:
    """Return the options in which presets differ from each other, a row for each preset."""
    names = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim", "dropout")
    header = (
        "| preset | " + " | ".join(f"`{name}`" for name in names) + " |\n|---" + "|---:" * len(names) + "|\n"
    )
    return header + "\n".join(
        f"| `{preset}` | " + " | ".join(f"{getattr(config, name):,}" for name in names) + " |"
        for preset, config in PRESETS.items()
    )


def described(annotation: Any) -> tuple[str, str]:
    """Return the name of a type, and its range in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return next(described(part) for part in arguments if part is not type(None))
    if origin is Literal:
        return "string", ", ".join(f"`{toml(choice)}`" for choice in arguments)
    if origin is Annotated:
        return described(arguments[0])[0], ", ".join(bounds(arguments[1:]))
    return NAMES.get(annotation, "string"), ""


def bounds(metadata: Any) -> Iterator[str]:
    """Yield the bounds among what pydantic knows of a field."""
    for part in metadata:
        for name, word in BOUNDS.items():
            if (bound := getattr(part, name, None)) is not None:
                yield f"{word} {'2³¹' if bound == 2**31 else '2³²' if bound == 2**32 else format(bound, 'g')}"
        if getattr(part, "min_length", None):
            yield "not empty"
        yield from bounds(getattr(part, "metadata", ()))


def toml(value: object) -> str:
    """Write a value as the file has it."""
    quoted = f'"{value}"' if isinstance(value, str) else str(value)
    return quoted.lower() if isinstance(value, bool) else quoted


def one_line(text: str | None) -> str:
    """Join the lines of a docstring."""
    return " ".join((text or "").split())
