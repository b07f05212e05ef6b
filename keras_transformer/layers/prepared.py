"""What every step of decoding needs and no step changes, computed once before the loop."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Value = TypeVar("Value")

_VALUES: contextvars.ContextVar[dict[int, Any] | None] = contextvars.ContextVar("values", default=None)


@contextlib.contextmanager
def kept_while_decoding() -> Iterator[None]:
    """Keep what `prepare` computes until the end.

    Whoever runs a loop asks for it, and makes the cache inside: what a loop computes for itself, no other
    may use.

    Yields:
        Nothing.
    """
    token = _VALUES.set({})
    try:
        yield
    finally:
        _VALUES.reset(token)


def prepare(owner: Any, compute: Callable[[], Any]) -> None:
    """Compute something that depends on weights alone, before a loop.

    Args:
        owner: a weight or a layer, of which this is made.
        compute: gives it.
    """
    values = _VALUES.get()
    if values is not None:
        values[id(owner)] = compute()


def prepared(owner: Any, compute: Callable[[], Value]) -> Value:
    """Give what was prepared, or else compute it.

    Args:
        owner: as for `prepare`.
        compute: likewise.

    Returns:
        What `compute` gives.
    """
    values = _VALUES.get() or {}
    return values[id(owner)] if id(owner) in values else compute()
