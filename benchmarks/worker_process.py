"""A program that answers lines of JSON, and what such a program says of itself."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# A program imports its neighbors from its own directory, which this variable would take away.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
Reply = dict[str, Any]


class WorkerProcess:
    """A program of this directory, which waits for requests.

    Args:
        program: its file name.
        words: its arguments.
        log: the file that its standard error is added to.
        checkout: whose program and package run; this one if None.
    """

    def __init__(self, program: str, words: Sequence[str], log: Path, checkout: Path | None = None) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / program if checkout is None else checkout / "benchmarks" / program),
                *words,
            ],
            env=ENVIRONMENT if checkout is None else {**ENVIRONMENT, "PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.started = self._read()

    def request(self, content: dict[str, Any]) -> Reply:
        """Send one request and wait.

        Args:
            content: what JSON can say.

        Returns:
            the answer, or `error`.
        """
        if self._process.stdin is not None and self._process.poll() is None:
            self._process.stdin.write(json.dumps(content) + "\n")
            self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._log.close()

    def _read(self) -> Reply:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        reply: Reply = json.loads(line) if line else {"error": f"the process ended; see {self._log.name}"}
        if "error" in reply:
            print(f"{self._log.name}: {reply['error']}", file=sys.stderr)
        return reply


def peak_megabytes() -> float:
    """Read the most memory that this process has held.

    Returns:
        megabytes; 0 where the system does not say.
    """
    # Not `ru_maxrss`, which starts from what the parent held.
    return _status_megabytes("VmHWM")


def memory_megabytes() -> float:
    """Read the memory that this process holds.

    Returns:
        megabytes; 0 where the system does not say.
    """
    return _status_megabytes("VmRSS")


def _status_megabytes(name: str) -> float:
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


def pin_to_cores(number: int) -> None:
    """Take so many cores, where the machine has more.

    Args:
        number: of cores.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])
