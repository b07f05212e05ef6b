"""Compares the speed of decoding: exports of this package, CTranslate2, and Marian of `transformers`.

python -m benchmarks.decoding.peers
python -m benchmarks.decoding.peers --cells small:1:greedy small:32:beam --systems ours ctranslate2
python -m benchmarks.decoding.peers --model runs/en_de --sources test.en.gz --cells trained:1:greedy

Each system runs in a separate process with two threads on the same two cores; the processes alternate. Random
sources and their outputs have 32 tokens, measured in tokens a second. A trained model translates its sources
in batches of similar length, measured in sentences a second, without Marian.

`ours` is a plain SavedModel, `-threads` one exported with `--threads 2`, `-xla` with `--optimize xla`,
`-bfloat16` with `--optimize bfloat16`; they map texts to texts, the other systems tokens to
tokens. All systems but
Marian have the same weights.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.common import (
    ROOT,
    Values,
    Worker,
    conditions,
    environment,
    in_turns,
    median,
    table,
    times,
    worker_command,
)
from benchmarks.decoding.cells import LENGTH, SEARCHES, Cell, Sources, parse_cell
from benchmarks.decoding.systems import SYSTEMS

PACKAGES = ("keras", "tensorflow", "ctranslate2", "torch", "transformers")
REFERENCE = "ctranslate2"
DEFAULT_SYSTEMS = ("ours", "ours-threads", "ours-xla", "ctranslate2", "ctranslate2-int8", "marian")
GRID = [Cell(shape, batch, search) for shape in ("small", "base") for batch in (1, 32) for search in SEARCHES]


class Preparation:
    """The process in which a checkout writes the exports, such as `ours:greedy`, of a shape."""

    def __init__(
        self, directory: Path, shape: str, exports: Sequence[str], *words: object, package: Path = ROOT
    ) -> None:
        self._log = directory.with_name(f"{directory.name}.log")
        command = worker_command("decoding.prepare", directory, shape, *exports, *words)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=environment(package), stdout=log, stderr=log)

    def finish(self) -> None:
        """Wait for the process; raise RuntimeError if it failed."""
        if self._process.wait():
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise RuntimeError("\n".join(["The exports could not be written:", *lines[-15:]]))


def ask_of(worker: Worker, cell: Cell, sources: Sources) -> Callable[[int], float]:
    """Return a function that measures tokens, or sentences of a trained model, a second."""
    every = list(range(len(sources.texts)))

    def rate(number: int) -> float:
        if cell.shape == "trained":
            batches = [every[start : start + cell.batch] for start in range(0, len(every), cell.batch)]
            return len(every) / worker.ask(batches=batches, search=cell.search)["seconds"]
        rows = [(number * cell.batch + row) % len(every) for row in range(cell.batch)]
        reply = worker.ask(batches=[rows], search=cell.search)
        # The time of another number of tokens could not be compared.
        if reply["tokens"] != cell.batch * LENGTH:
            wanted = cell.batch * LENGTH
            raise ValueError(f"{cell.name} must have {wanted} tokens. Received: {reply['tokens']}.")
        return cell.batch * LENGTH / reply["seconds"]

    return rate


def decode_in_turns(
    cells: Sequence[Cell], systems: Mapping[str, tuple[str, Path]], rounds: int
) -> tuple[dict[str, Values], dict[str, float]]:
    """Return the rates of each cell and round, and peak megabytes, of systems and their directories."""
    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers = {}
        for name, (system, directory) in systems.items():
            log = logs / f"{name}.log"
            workers[name] = Worker(log, "decoding.systems", system, directory, cells[0].shape)
            stack.callback(workers[name].close)
        sources = {name: Sources(directory) for name, (_, directory) in systems.items()}
        rates = {}
        for cell in cells:
            asks = {name: ask_of(worker, cell, sources[name]) for name, worker in workers.items()}
            rates[cell.name] = in_turns(asks, rounds, title=cell.name)
        return rates, {name: worker.peak for name, worker in workers.items()}


def first_requests(system: str, directory: Path, shape: str, starts: int) -> list[str]:
    """Return a row of medians of fresh processes: load, the first greedy request, the next one."""
    seconds: list[list[float]] = []
    for number in range(starts):
        with tempfile.TemporaryDirectory() as logs:
            worker = Worker(Path(logs, "first.log"), "decoding.systems", system, directory, shape)
            ask = partial(worker.ask, search="greedy")
            replies = [ask(batches=[[row]])["seconds"] for row in (number, number + 10)]
            seconds.append([worker.started["seconds"], *replies])
            worker.close()
    load, *requests = zip(*seconds, strict=True)
    return [system, median(load, "{:.1f}"), *(median([1000 * each for each in times]) for times in requests)]


def show(shape: str, directory: Path, options: argparse.Namespace) -> None:
    """Measure a shape and print its tables."""
    cells = [cell for cell in options.cells if cell.shape == shape]
    names = [system for system in options.systems if (shape, system) != ("trained", "marian")]
    searches = dict.fromkeys([*(cell.search for cell in cells), *["greedy"] * bool(options.starts)])
    exports = [f"{system}:{search}" for system in names for search in searches]
    trained = ["--model", options.model, "--sources", options.sources, "--sentences", options.sentences]
    Preparation(directory, shape, exports, *(trained if shape == "trained" else [])).finish()
    rates, peak = decode_in_turns(cells, {name: (name, directory) for name in names}, options.rounds)
    unit = "sentences" if shape == "trained" else "tokens"
    heads = [f"{shape}: {unit} a second (times {REFERENCE})", *rates, "peak MB"]
    rows = [
        [
            name,
            *(median(each[name]) + times(each[name], each.get(REFERENCE, [])) for each in rates.values()),
            f"{peak[name]:,.0f}",
        ]
        for name in names
    ]
    print(table(heads, rows), end="\n\n", flush=True)
    if options.starts:
        heads = [f"{shape}, one sentence, greedy", "load, s", "first request, ms", "second request, ms"]
        rows = [first_requests(name, directory, shape, options.starts) for name in names]
        print(table(heads, rows), end="\n\n", flush=True)


def main() -> None:
    """Measure each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cells", type=parse_cell, nargs="+", default=GRID, help="such as small:32:beam")
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=DEFAULT_SYSTEMS)
    parser.add_argument("--rounds", type=int, default=5, help="medians are shown")
    parser.add_argument("--starts", type=int, default=0, help="fresh processes for the first request")
    parser.add_argument("--model", type=Path, help="directory of a run, for cells such as trained:1:greedy")
    parser.add_argument("--sources", type=Path, help="its sources, one on each line, plain or .gz")
    parser.add_argument("--sentences", type=int, default=128, help="how many of them")
    options = parser.parse_args()
    if any(cell.shape == "trained" for cell in options.cells) and not (options.model and options.sources):
        parser.error("cells of the shape `trained` need --model and --sources.")
    with tempfile.TemporaryDirectory() as directory:
        for shape in dict.fromkeys(cell.shape for cell in options.cells):
            show(shape, Path(directory, shape), options)
    print(conditions(*PACKAGES, note="two threads each, medians of the rounds"))


if __name__ == "__main__":
    main()
