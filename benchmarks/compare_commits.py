"""Measures two checkouts of this repository side by side: steps of training, and decoding.

git worktree add ../before COMMIT
python benchmarks/compare_commits.py ../before .
python benchmarks/compare_commits.py ../before . --training small:ours --decoding small:1:greedy:ours

Each checkout runs its own programs and its own package, in processes that take turns, so that both meet the
same noise of the machine. What is shown are medians, and the median of the ratios of the rounds: below 1, the
second checkout is the slower one.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from decoding_cells import parse_cell
from machine import machine
from training_shapes import SHAPES
from worker_process import ENVIRONMENT, WorkerProcess

PACKAGES = ("keras", "tensorflow")
TRAINING = ("small:ours", "small:ours-xla", "base:ours")
DECODING = tuple(
    f"{shape}:{batch}:{search}:{system}"
    for shape, batches in (("small", (1, 32)), ("base", (1, 8)))
    for batch in batches
    for search in ("greedy", "beam")
    for system in ("ours", "ours-xla")
)
Rates = list[list[float]]
"""Tokens a second: of each round, those of both checkouts."""


def take_turns(asks: Sequence[Callable[[int], float]], rounds: int) -> Rates:
    """Ask both checkouts in each round, another one first each time."""
    for ask in asks:
        ask(0)  # graphs are made
        ask(0)
    measured = []
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        rates = {which: asks[which](number) for which in order}
        measured.append([rates[0], rates[1]])
    return measured


def training(cell: str, checkouts: Sequence[Path], rounds: int, steps: int) -> Rates:
    """Measure steps of training, target tokens a second."""
    shape, system = cell.split(":")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        asks = []
        for number, checkout in enumerate(checkouts):
            log = directory / f"{number}.log"
            worker = WorkerProcess("training_worker.py", [system, shape], log, checkout)
            stack.callback(worker.close)
            asks.append(
                lambda seed, worker=worker: (
                    SHAPES[shape].tokens * steps / worker.request({"steps": steps, "seed": seed})["seconds"]
                )
            )
        return take_turns(asks, rounds)


def prepare_decoding(shape: str, cells: Sequence[str], checkouts: Sequence[Path], directory: Path) -> None:
    """Let each checkout export the model of a shape for all its cells."""
    names = "[" + ", ".join(f'"{cell.rsplit(":", 1)[0]}"' for cell in cells) + "]"
    for number, checkout in enumerate(checkouts):
        program = checkout / "benchmarks" / "decoding_prepare.py"
        subprocess.run(
            [sys.executable, str(program), str(directory / str(number)), shape, names, "--xla"],
            env={**ENVIRONMENT, "PYTHONPATH": str(checkout)},
            check=True,
            stdout=2,
        )


def decoding(cell: str, checkouts: Sequence[Path], directory: Path, rounds: int) -> Rates:
    """Measure decoding, generated tokens a second."""
    name, system = cell.rsplit(":", 1)
    asked = parse_cell(name)
    with ExitStack() as stack:
        asks = []
        for number, checkout in enumerate(checkouts):
            words = [system, str(directory / str(number)), asked.shape]
            log = directory / f"{number}-{system}.log"
            worker = WorkerProcess("decoding_worker.py", words, log, checkout)
            stack.callback(worker.close)

            def ask(seed: int, worker: WorkerProcess = worker) -> float:
                reply = worker.request({"cell": asked, "seed": seed, "single": False})
                return reply["tokens"] / reply["seconds"]

            asks.append(ask)
        return take_turns(asks, rounds)


def row(kind: str, cell: str, rates: Rates) -> str:
    """Write a line of the table."""
    medians = [statistics.median(rate[which] for rate in rates) for which in (0, 1)]
    ratios = sorted(rate[1] / rate[0] for rate in rates)
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    numbers = [*(f"{median:,.0f}" for median in medians), f"{statistics.median(ratios):.2f}", spread]
    return f"| {kind} {cell} | " + " | ".join(numbers) + " |"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", type=Path, nargs=2, help="directories, the one before first")
    parser.add_argument("--training", nargs="*", default=TRAINING, help="such as small:ours")
    parser.add_argument("--decoding", nargs="*", default=DECODING, help="such as small:1:greedy:ours")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5, help="of training in a turn")
    return parser.parse_args()


def main() -> None:
    """Measure, and print the table."""
    options = _options()
    checkouts = [path.resolve() for path in options.checkouts]
    print(
        "| tokens a second | before | after | ratio | of the rounds |\n|---|---:|---:|---:|---:|", flush=True
    )
    for cell in options.training:
        print(row("training", cell, training(cell, checkouts, options.rounds, options.steps)), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for shape in dict.fromkeys(cell.split(":")[0] for cell in options.decoding):
            cells = [cell for cell in options.decoding if cell.startswith(f"{shape}:")]
            prepare_decoding(shape, cells, checkouts, Path(directory, shape))
            for cell in cells:
                rates = decoding(cell, checkouts, Path(directory, shape), options.rounds)
                print(row("decoding", cell, rates), flush=True)
    commits = [
        subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=path, capture_output=True, text=True, check=True
        ).stdout.strip()
        for path in checkouts
    ]
    print(f"\n{machine(PACKAGES)}; two threads each; commits {commits[0]} and {commits[1]}")
    print(f"`{shlex.join(['python', 'benchmarks/compare_commits.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
