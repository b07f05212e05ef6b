"""The base of every configuration and the checks they share."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias, get_args, get_type_hints

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
