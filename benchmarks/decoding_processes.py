"""The processes of `decoding.py`: one that prepares, one for each system."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from decoding_cells import Cell
from worker_process import ENVIRONMENT, HERE, Reply, WorkerProcess


class Worker(WorkerProcess):
    """A system in its own process.

    Args:
        system: its name.
        directory: what `decoding_prepare.py` wrote.
        shape: of the model.
    """

    def __init__(self, system: str, directory: Path, shape: str) -> None:
        sources = directory / "sources.json"
        words = [system, str(directory), shape, *([str(sources)] if sources.exists() else [])]
        super().__init__("decoding_worker.py", words, directory / f"{system}.log")
        self.system = system

    def ask(self, cell: Cell, seed: int, *, single: bool = False) -> Reply:
        """Send one request and wait.

        Args:
            cell: what is generated.
            seed: of the sources.
            single: whether a trained model answers one source instead of all.

        Returns:
            `seconds`, `tokens` and `peak`, or `error`.
        """
        return self.request({"cell": cell, "seed": seed, "single": single})


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
