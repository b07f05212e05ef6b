"""A check: a name, what it passes if, the seconds it may take, and a line of JSON that is written at once."""

import dataclasses
import json
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.accelerator.engines import Engine


class CannotError(Exception):
    """A check cannot run here; its message says why."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a check found."""

    passed: bool | None
    """None where a number is only measured, or its limit belongs to a card."""
    numbers: dict[str, Any]
    reason: str = ""
    """Why there is no verdict."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a check knows of where it runs."""

    engine: Engine
    directory: Path
    """For files that one process leaves to the next."""
    dry: bool
    """Whether sizes are tiny, since the machine is an ordinary processor."""

    def size(self, real: Any, tiny: Any) -> Any:
        """Return a size for a card, or the one for a dry run."""
        return tiny if self.dry else real

    def on_card(self, outcome: bool, numbers: dict[str, Any], reason: str) -> Outcome:
        """Return a verdict that counts on a card alone."""
        return Outcome(None, numbers, reason) if self.dry else Outcome(outcome, numbers)


@dataclasses.dataclass(frozen=True)
class Check:
    """A check and its place in the table."""

    name: str
    passes_if: str
    backends: tuple[str, ...]
    seconds: int
    """The most that it takes on a card; it is left out where less is left, and interrupted after it."""
    run: Callable[[Setting], Outcome]


CHECKS: list[Check] = []
"""All checks in the order of their value: the last ones are left out where time runs out."""


def check(
    name: str, passes_if: str, *, seconds: int, backends: tuple[str, ...] = ("jax", "torch")
) -> Callable[[Callable[[Setting], Outcome]], Callable[[Setting], Outcome]]:
    """Add a function to the checks."""

    def add(function: Callable[[Setting], Outcome]) -> Callable[[Setting], Outcome]:
        CHECKS.append(Check(name, passes_if, backends, seconds, function))
        return function

    return add


def run_check(each: Check, setting: Setting, seconds_left: float) -> dict[str, Any]:
    """Run a check so that nothing that it does ends the others, and return its line."""
    line: dict[str, Any] = {
        "check": each.name,
        "passes_if": each.passes_if,
        "backend": setting.engine.name,
        "device": setting.engine.device(),
        "dry_run": setting.dry,
    }
    if seconds_left < each.seconds and not setting.dry:
        return {
            **line,
            "passed": None,
            "reason": f"It needs {each.seconds} s, and {seconds_left:.0f} are left.",
        }
    start = time.perf_counter()
    try:
        with _limited(each.seconds * (10 if setting.dry else 1)):
            outcome = each.run(setting)
        line |= {"passed": outcome.passed, "numbers": outcome.numbers}
        line |= {"reason": outcome.reason} if outcome.reason else {}
    except CannotError as reason:
        line |= {"passed": None, "reason": str(reason)}
    except Exception as error:  # noqa: BLE001 (any failure is a result)
        line |= {
            "passed": False,
            "error": f"{type(error).__name__}: {error}",
            "trace": traceback.format_exc()[-2000:],
        }
    return {**line, "seconds": round(time.perf_counter() - start, 2)}


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after some seconds, as soon as Python is asked again."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"It took more than {seconds} s.")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def write_line(path: Path, line: dict[str, Any]) -> None:
    """Append a line of JSON, which is on the disk when this returns."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, default=float) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file; none where there is no file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]
