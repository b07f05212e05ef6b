"""Compares the speed of training steps: this package, KerasHub and torch.

python -m benchmarks.training.peers
python -m benchmarks.training.peers --shapes small --systems ours kerashub torch --rounds 5

Each system trains in a separate process with two threads on the same two cores; the processes alternate. A
turn is `--steps` steps, timed together; the first turn, which traces the graphs, is not counted.
"""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.common import ROOT, SHAPES, Values, Worker, conditions, in_turns, median, table, times
from benchmarks.training.batches import tokens_of
from benchmarks.training.systems import SYSTEMS

PACKAGES = ("keras", "tensorflow", "jax", "torch", "keras-hub")


def train_in_turns(
    shape: str, packages: dict[str, tuple[str, Path]], rounds: int, steps: int
) -> tuple[Values, dict[str, float]]:
    """Return target tokens a second of each round, and peak megabytes, of systems of checkouts."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers = {
            name: Worker(directory / f"{name}.log", "training.systems", system, shape, package=package)
            for name, (system, package) in packages.items()
        }
        for worker in workers.values():
            stack.callback(worker.close)
        asks = {
            name: lambda seed, worker=worker: (
                steps * tokens_of(shape) / worker.ask(steps=steps, seed=seed)["seconds"]
            )
            for name, worker in workers.items()
        }
        rates = in_turns(asks, rounds, warm_ups=1, title=f"training {shape}")
        return rates, {name: worker.peak for name, worker in workers.items()}


def main() -> None:
    """Measure, and print a table for each shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["small", "base"])
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5, help="steps of a turn")
    parser.add_argument("--reference", choices=list(SYSTEMS), default="kerashub")
    options = parser.parse_args()
    for shape in options.shapes:
        here = {name: (name, ROOT) for name in options.systems}
        rates, peak = train_in_turns(shape, here, options.rounds, options.steps)
        milliseconds = {
            name: [1000 * tokens_of(shape) / rate for rate in values] for name, values in rates.items()
        }
        reference = rates.get(options.reference, [])
        rows = [
            [
                name,
                median(milliseconds[name]),
                median(values),
                times(values, reference).strip(" ()") or "-",
                f"{peak[name]:,.0f}",
            ]
            for name, values in rates.items()
        ]
        heads = [shape, "ms a step", "target tokens a second", f"times {options.reference}", "peak MB"]
        print(table(heads, rows), end="\n\n", flush=True)
    print(conditions(*PACKAGES, note="two threads each, medians of the rounds"))


if __name__ == "__main__":
    main()
