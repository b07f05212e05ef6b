"""Measures steps of training side by side: ours, KerasHub and torch.

python benchmarks/training.py
python benchmarks/training.py --shapes small --systems ours kerashub torch --rounds 5

Every system trains in a process of its own, with two threads on the same two cores; the processes take
turns, so that only one works at a time. A turn is a number of steps, timed as a whole by the wall clock;
the first turn, in which graphs are made, is thrown away. `products` is the rate of large matrix products
in the same run, to which a step's own products are compared: `training_shapes.Shape.flops` says how they
are counted.
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from machine import machine
from training_shapes import SHAPES
from training_systems import SYSTEMS, Products
from worker_process import WorkerProcess

PACKAGES = ("keras", "tensorflow", "jax", "torch", "keras-hub")


def measure(shape: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Train all systems in turns.

    Args:
        shape: its name.
        options: of the command line.

    Returns:
        the seconds of a step in each round, and the peak memory, of each system.
    """
    results: dict[str, dict[str, Any]] = {name: {"seconds": []} for name in options.systems}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers = {}
        for name in options.systems:
            workers[name] = WorkerProcess("training_worker.py", [name, shape], directory / f"{name}.log")
            stack.callback(workers[name].close)
        for number in range(options.rounds + 1):
            for name, worker in workers.items():
                reply = worker.request({"steps": options.steps if number else 1, "seed": number})
                print(shape, number, name, reply, file=sys.stderr, flush=True)
                if number and "error" not in reply:
                    results[name]["seconds"].append(reply["seconds"] / options.steps)
                    results[name]["peak"] = reply["peak"]
    return {name: result for name, result in results.items() if result["seconds"]}


def product_rate(results: dict[str, dict[str, Any]]) -> float | None:
    """Compute the rate of large products.

    Args:
        results: of `measure`.

    Returns:
        floating-point operations a second; None where they were not measured.
    """
    if "products" not in results:
        return None
    return 10 * 2 * Products.size**3 / statistics.median(results["products"]["seconds"])


def table(shape: str, results: dict[str, dict[str, Any]], reference: str) -> list[str]:
    """Write a table.

    Args:
        shape: its name.
        results: of `measure`.
        reference: the system that the others are compared with.

    Returns:
        lines of Markdown.
    """
    rate = product_rate(results)
    medians = {name: statistics.median(result["seconds"]) for name, result in results.items()}
    share = "" if rate is None else f" share of {rate / 1e9:.0f} GFLOP/s |"
    lines = [
        f"| {shape} | ms a step | target tokens a second | times {reference} | peak MB |{share}",
        "|---|---:|---:|---:|---:|" + ("" if rate is None else "---:|"),
    ]
    for name in (name for name in results if name != "products"):
        seconds = medians[name]
        ratio = f"{medians[reference] / seconds:.2f}" if reference in medians else "-"
        cells = [f"{1000 * seconds:,.0f}", f"{SHAPES[shape].tokens / seconds:,.0f}", ratio]
        cells += [f"{results[name]['peak']:,.0f}"]
        cells += [] if rate is None else [f"{SHAPES[shape].flops / seconds / rate:.0%}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["small", "base"])
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=7, help="medians are shown")
    parser.add_argument("--steps", type=int, default=5, help="of a turn")
    parser.add_argument("--reference", choices=list(SYSTEMS), default="kerashub")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    options = parser.parse_args()
    if min(options.rounds, options.steps) < 1:
        parser.error("--rounds and --steps must be above zero.")
    return options


def main() -> None:
    """Measure, and print the tables."""
    options = _options()
    results = {shape: measure(shape, options) for shape in options.shapes}
    for shape, numbers in results.items():
        print("\n".join(table(shape, numbers, options.reference)), end="\n\n")
    command = shlex.join(["python", "benchmarks/training.py", *sys.argv[1:]])
    about = f"{machine(PACKAGES)}; two threads each, seed 0 (weights) and the number of the round (tokens)"
    print(f"{about}\n`{command}`")
    if options.json is not None:
        content = {"machine": about, "command": command, "results": results}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
