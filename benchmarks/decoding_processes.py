"""The processes of `decoding.py`: one that prepares, one for each system."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from decoding_cells import Cell

HERE = Path(__file__).parent
# A program imports its neighbors from its own directory, which this variable would take away.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
Reply = dict[str, Any]


class Worker:
    """A system in its own process.

    Args:
        system: its name.
        directory: what `decoding_prepare.py` wrote.
        shape: of the model.
    """

    def __init__(self, system: str, directory: Path, shape: str) -> None:
        sources = directory / "sources.json"
        words = [system, str(directory), shape, *([str(sources)] if sources.exists() else [])]
        self._log = (directory / f"{system}.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "decoding_worker.py"), *words],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.system = system
        self.started = self._read()

    def ask(self, cell: Cell, seed: int, *, single: bool = False) -> Reply:
        """Send one request and wait.

        Args:
            cell: what is generated.
            seed: of the sources.
            single: whether a trained model answers one source instead of all.

        Returns:
            `seconds`, `tokens` and `peak`, or `error`.
        """
        if self._process.stdin is not None and self._process.poll() is None:
            self._process.stdin.write(json.dumps({"cell": cell, "seed": seed, "single": single}) + "\n")
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


@contextmanager
def workers(systems: Sequence[str], directory: Path, shape: str) -> Iterator[list[Worker]]:
    """Start a process for each system, and end them all.

    Args:
        systems: their names.
        directory: what was prepared.
        shape: of the model.

    Yields:
        the workers, loaded.
    """
    with ExitStack() as stack:
        started = []
        for system in systems:
            started.append(Worker(system, directory, shape))
            stack.callback(started[-1].close)
        yield started


def prepare(directory: Path, shape: str, cells: Sequence[Cell], *, xla: bool, model: str | None) -> None:
    """Write what the workers load, in a process of its own.

    Args:
        directory: made if absent.
        shape: of the model.
        cells: what will be measured.
        xla: whether compiled graphs are wanted.
        model: directory of a run, for the shape `trained`.
    """
    words = [str(directory), shape, json.dumps([cell.name for cell in cells])]
    words += [*(["--xla"] if xla else []), *(["--model", model] if model else [])]
    subprocess.run(
        [sys.executable, str(HERE / "decoding_prepare.py"), *words], env=ENVIRONMENT, check=True, stdout=2
    )
