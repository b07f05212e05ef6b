"""Measures decoding side by side: ours as a SavedModel, CTranslate2, Hugging Face Marian and KerasHub.

python benchmarks/decoding.py
python benchmarks/decoding.py --cells small:1:greedy small:8:beam --systems ours ctranslate2 --parts grid
python benchmarks/decoding.py --model runs/en_de --sources test.en.gz --cells trained:1:greedy

Every system runs in a process of its own, with two threads on the same two cores, and waits for requests;
the processes take turns, so that only one works at a time. What is timed starts with the input in the form
that the engine takes and ends with the ids on the host. Sources have 32 random tokens, and every answer
has exactly the wanted number: in ours and CTranslate2, which share their weights, and in Marian the end
token can never win; KerasHub gets no stop token. A trained model answers at its own lengths, all sources
in batches of like lengths; there only engines with the same weights are compared.

`ours-threads` is exported for two threads, each with a part of the sources; `ours-int8` has integers in
large products. `ours-xla` is compiled for fixed shapes, `ours-strings-xla` for the lengths and batches of
`--optimize xla`, `ours-xla-threads` and `ours-strings-xla-threads` for the part of each thread;
`ours-litert` and `ours-litert-int8` are files for one source at a time, as long as the limits of the model.
`kerashub` is its documentation's example, which computes encoder and decoder again for each token;
`kerashub-bart` is its best, a model with caches (`decoding_kerashub.py`).
"""

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path

from decoding_cells import SEARCHES, Cell, parse_cell
from decoding_parts import first_requests, grid, latencies, lengths
from decoding_processes import prepare
from decoding_tables import first_table, grid_table, latency_table, length_table
from machine import machine

PACKAGES = ("keras", "tensorflow", "ctranslate2", "torch", "transformers", "keras-hub")
RANDOM_SYSTEMS = (
    "ours",
    "ours-one-thread",
    "ours-threads",
    "ours-int8",
    "ours-xla",
    "ours-xla-threads",
    "ctranslate2",
    "ctranslate2-int8",
    "marian",
    "kerashub",
    "kerashub-bart",
    "bare-loop",
)
TRAINED_SYSTEMS = (
    "ours",
    "ours-one-thread",
    "ours-threads",
    "ours-strings",
    "ours-strings-threads",
    "ours-strings-xla",
    "ours-strings-xla-threads",
    "ours-litert",
    "ours-litert-int8",
    "ctranslate2",
    "ctranslate2-int8",
)
LENGTHS = (32, 64, 128, 256)
PARTS = ("grid", "lengths", "latency", "first")
GRID = [Cell(shape, b, search) for shape in ("small", "base") for b in (1, 8, 32) for search in SEARCHES]


def systems_of(shape: str, chosen: list[str] | None) -> list[str]:
    """Choose the systems that can answer a shape.

    Args:
        shape: of the model.
        chosen: on the command line; None for all.

    Returns:
        their names.
    """
    possible = TRAINED_SYSTEMS if shape == "trained" else RANDOM_SYSTEMS
    return [system for system in possible if chosen is None or system in chosen]


def cells_to_prepare(shape: str, options: argparse.Namespace) -> list[Cell]:
    """Collect all that the parts will ask of a shape.

    Args:
        shape: of the model.
        options: of the command line.

    Returns:
        cells.
    """
    cells = [cell for cell in options.cells if cell.shape == shape]
    cells += [Cell(shape, 1, "greedy")]
    if "lengths" in options.parts and shape != "trained":
        cells += [Cell(shape, 1, "greedy", length) for length in options.lengths]
    return list(dict.fromkeys(cells))


def measure(shape: str, directory: Path, options: argparse.Namespace) -> dict[str, dict]:
    """Measure all parts of a shape.

    Args:
        shape: of the model.
        directory: for what the workers load.
        options: of the command line.

    Returns:
        the numbers of each part.
    """
    systems = systems_of(shape, options.systems)
    directory.mkdir(parents=True)
    if shape == "trained":
        write_sources(directory, options)
    cells = cells_to_prepare(shape, options)
    prepare(directory, shape, cells, xla=any("xla" in system for system in systems), model=options.model)
    limit = json.loads((directory / "limit.json").read_text()) if shape == "trained" else None
    cells = [cell._replace(length=limit) if limit else cell for cell in options.cells if cell.shape == shape]
    single = Cell(shape, 1, "greedy", limit or 32)
    results: dict[str, dict] = {}
    if "grid" in options.parts:
        results["grid"] = grid(systems, directory, cells, options.rounds)
    if "lengths" in options.parts and shape != "trained":
        results["lengths"] = lengths(systems, directory, shape, options.lengths, options.rounds)
    if "latency" in options.parts:
        results["latency"] = latencies(systems, directory, single, options.requests)
    if "first" in options.parts:
        results["first"] = first_requests(systems, directory, single, options.starts)
    return results


def write_sources(directory: Path, options: argparse.Namespace) -> None:
    """Hand the sources of a trained model to `decoding_prepare.py`, which tokenizes them.

    Args:
        directory: of the shape.
        options: of the command line.
    """
    place = {"path": str(options.sources), "limit": options.sentences}
    (directory / "texts.json").write_text(json.dumps(place), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=parse_cell, nargs="+", default=GRID, help="such as small:8:beam")
    parser.add_argument("--systems", nargs="+", choices=sorted({*RANDOM_SYSTEMS, *TRAINED_SYSTEMS}))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=7, help="of grid and lengths; medians are shown")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens to generate")
    parser.add_argument("--requests", type=int, default=200, help="single sentences, for p50 and p99")
    parser.add_argument("--starts", type=int, default=3, help="fresh processes, for the first request")
    parser.add_argument("--model", help="directory of a run, for cells such as trained:1:greedy")
    parser.add_argument("--sources", type=Path, help="its sources, one on each line, plain or .gz")
    parser.add_argument("--sentences", type=int, default=128, help="how many of the sources")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    options = parser.parse_args()
    if any(cell.shape == "trained" for cell in options.cells) and not (options.model and options.sources):
        parser.error("the shape `trained` needs --model and --sources.")
    if min(options.rounds, options.requests, options.starts, options.sentences) < 1:
        parser.error("--rounds, --requests, --starts and --sentences must be above zero.")
    return options


def main() -> None:
    """Measure, and print the tables."""
    options = _options()
    results = {}
    with tempfile.TemporaryDirectory() as directory:
        for shape in dict.fromkeys(cell.shape for cell in options.cells):
            results[shape] = measure(shape, Path(directory, shape), options)
    tables = {"grid": grid_table, "lengths": length_table, "latency": latency_table, "first": first_table}
    for shape, parts in results.items():
        for part, numbers in parts.items():
            print("\n".join(tables[part](shape, numbers)), end="\n\n")
    command = shlex.join(["python", "benchmarks/decoding.py", *sys.argv[1:]])
    about = f"{machine(PACKAGES)}; two threads each, seeds 0 (weights) and the number of the round (sources)"
    print(f"{about}\n`{command}`")
    if options.json is not None:
        content = {"machine": about, "command": command, "results": results}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
