"""From files, tables and flags to configurations, with messages for the person who wrote them."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from keras_transformer.config.section import Section, field_names
from keras_transformer.errors import InputError

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
