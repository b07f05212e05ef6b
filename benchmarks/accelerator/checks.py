"""A check: its name, its condition, its time limit, and the line of JSON that it writes."""

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
    """The result of a check."""

    passed: bool | None
    """None if a number is only measured, or its limit holds only on an accelerator."""
    numbers: dict[str, Any]
    reason: str = ""
    """Why there is no verdict."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """The environment of a check."""

    engine: Engine
    directory: Path
    """Directory for files that one process passes to the next."""
    dry: bool
    """Whether sizes are tiny, for a processor without an accelerator."""

    def size(self, real: Any, tiny: Any) -> Any:
        """Return the size for an accelerator, or the one for a dry run."""
        return tiny if self.dry else real

    def on_card(self, outcome: bool, numbers: dict[str, Any], reason: str) -> Outcome:
        """Return a verdict that counts only on an accelerator."""
        return Outcome(None, numbers, reason) if self.dry else Outcome(outcome, numbers)


@dataclasses.dataclass(frozen=True)
class Check:
    """A check and its row of the table."""

    name: str
    passes_if: str
    backends: tuple[str, ...]
    seconds: int
    """Time limit on an accelerator; the check is skipped if less time is left, and interrupted after it."""
    run: Callable[[Setting], Outcome]


CHECKS: list[Check] = []
"""All checks, the most important first: the last ones are skipped if time runs out."""


def check(
    name: str, passes_if: str, *, seconds: int, backends: tuple[str, ...] = ("jax", "torch")
) -> Callable[[Callable[[Setting], Outcome]], Callable[[Setting], Outcome]]:
    """Add a function to the checks."""

    def add(function: Callable[[Setting], Outcome]) -> Callable[[Setting], Outcome]:
        CHECKS.append(Check(name, passes_if, backends, seconds, function))
        return function

    return add


def run_check(each: Check, setting: Setting, seconds_left: float) -> dict[str, Any]:
    """Run a check so that its failure does not end the others, and return its line."""
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
    """Raise TimeoutError after some seconds, as soon as Python code runs."""

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
    """Append a line of JSON and flush it to the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, default=float) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file; empty if it does not exist."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]
