"""Shared parts of the benchmarks: worker processes, alternating rounds, tables, machine and versions."""

import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
THREADS = 2
"""Threads of every system; each process is pinned to that number of cores."""
Values = dict[str, list[float]]
"""The measurement of each round, by what was measured."""


class Shape(NamedTuple):
    """Sizes of an encoder-decoder Transformer."""

    num_layers: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int


SHAPES = {
    "tiny": Shape(1, 16, 32, 2),
    "small": Shape(3, 256, 1024, 8),
    "base": Shape(6, 512, 2048, 8),
}


def environment(package: Path = ROOT) -> dict[str, str]:
    """Return the environment of a worker that imports `keras_transformer` from the checkout `package`."""
    # The command line and the guide to serving set `TF_ENABLE_ONEDNN_OPTS`; here it holds for all systems.
    defaults = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1", "OMP_NUM_THREADS": str(THREADS)}
    path = os.pathsep.join(map(str, dict.fromkeys((package, ROOT))))
    return {**defaults, **os.environ, "PYTHONPATH": path}


def worker_command(module: str, *words: object) -> list[str]:
    """Return the command of a module of `benchmarks`, without the current directory on its path."""
    return [sys.executable, "-P", "-m", f"benchmarks.{module}", *map(str, words)]


class Worker:
    """A process that waits for requests; its module calls `serve`."""

    def __init__(self, log: Path, module: str, *words: object, package: Path = ROOT) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            worker_command(module, *words),
            env=environment(package),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.peak = 0.0
        self.started = self._reply()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return the reply; raise RuntimeError if the worker failed."""
        if self._process.stdin is not None and self._process.poll() is None:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        reply = self._reply()
        if "error" in reply:
            raise RuntimeError(
                f"{Path(self._log.name).stem} must answer {request}. Received: {reply['error']}"
            )
        return reply

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._log.close()

    def _reply(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            lines = Path(self._log.name).read_text(encoding="utf-8", errors="replace").splitlines()
            return {"error": "\n".join(["the process ended:", *lines[-15:]])}
        reply: dict[str, Any] = json.loads(line)
        self.peak = reply.get("peak", self.peak)
        return reply


def serve(load: Callable[..., Callable[..., dict[str, Any]]]) -> None:
    """Answer the requests of a `Worker` with `load(*arguments)` until its pipe closes."""
    # Libraries may print: redirect that to standard error.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    start = time.perf_counter()
    answer = load(*sys.argv[1:])
    reply: dict[str, Any] = {"seconds": time.perf_counter() - start}
    print(json.dumps({**reply, "peak": peak_megabytes()}), file=pipe, flush=True)
    for line in sys.stdin:
        try:
            reply = answer(**json.loads(line))
        except Exception as error:  # noqa: BLE001 - a system that cannot answer is a result, not the end
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps({**reply, "peak": peak_megabytes()}), file=pipe, flush=True)


def in_turns(
    asks: Mapping[str, Callable[[int], float]], rounds: int, warm_ups: int = 2, title: str = ""
) -> Values:
    """Measure each once in every round, in rotating order, so that all have the same noise.

    What fails in its warm-up is named on standard error and has no values.
    """
    able = dict(asks)
    for name, ask in asks.items():
        try:
            for number in range(warm_ups):
                ask(number)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            del able[name]
    values: Values = {name: [] for name in asks}
    for number in range(rounds):
        print(f"{title}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        first = number % max(len(able), 1)
        for name in [*able][first:] + [*able][:first]:
            values[name].append(able[name](number))
    return values


def median(values: Sequence[float], pattern: str = "{:,.0f}") -> str:
    """Return the formatted median, or a dash if there are no values."""
    return pattern.format(statistics.median(values)) if values else "-"


def times(values: Sequence[float], reference: Sequence[float]) -> str:
    """Return the ratio of two medians in brackets, or nothing."""
    if not values or not reference:
        return ""
    return f" ({statistics.median(values) / statistics.median(reference):.2f}x)"


def table(heads: Sequence[str], rows: Sequence[Sequence[object]] = ()) -> str:
    """Return a Markdown table whose first column is text."""
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def conditions(*packages: str, note: str = "") -> str:
    """Return the lines below a table: machine, versions and the command of this process."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    parts = [
        f"{os.cpu_count()} cores{' with AVX-512' * _has_avx512()}",
        platform.machine(),
        f"Python {platform.python_version()}",
        versions,
    ]
    spec = sys.modules["__main__"].__spec__
    command = ["python", *(["-m", spec.name] if spec else [sys.argv[0]]), *sys.argv[1:]]
    return f"{', '.join(parts)}{note and '; ' + note}\n`{shlex.join(command)}`"


def _has_avx512() -> bool:
    path = Path("/proc/cpuinfo")
    return path.exists() and "avx512f" in path.read_text(encoding="utf-8")


def peak_megabytes() -> float:
    """Return the peak memory of this process; 0 where the system does not report it."""
    # Not `ru_maxrss`, which includes the memory of the parent.
    return _status_megabytes("VmHWM")


def memory_megabytes() -> float:
    """Return the memory of this process; 0 where the system does not report it."""
    return _status_megabytes("VmRSS")


def _status_megabytes(name: str) -> float:
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)
