"""Prints the table of results of docs/results.md from the reports that `keras-transformer train` wrote.

python -m benchmarks.quality.results runs/dates runs/en_de_0 runs/en_de_1 runs/en_de_2

Runs that differ only in seed, name and `distribute` share a row: the mean, the lowest and the highest value.
Runs that continue such runs share a row too, if the first runs are found.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import conditions

HEADS = ("run", "test items", "scores", "seeds", "minutes of a run, all in all")
SCORES = ("exact_match", "bleu", "chrf")


def read(directory: Path, name: str) -> dict[str, Any]:
    """Read `report` or `config` of a run."""
    return json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))


def recipe(directory: Path) -> str:
    """Return the configuration of a run, without seeds, name and engine, and of the run that it continues."""
    config = read(directory, "config")
    del config["name"], config["training"]["seed"], config["data"]["seed"], config["training"]["distribute"]
    earlier = config["model"]["initial_model"]
    if earlier is not None and Path(earlier, "config.json").is_file():
        config["model"]["initial_model"] = recipe(Path(earlier))
    return json.dumps(config, sort_keys=True)


def cell(scores: Sequence[dict[str, Any]]) -> str:
    """Return one kind of score of several runs: "BLEU 40.30 (40.12 to 40.51; signature)"."""
    first = scores[0]
    factor, unit = (100, " %") if first["is_fraction"] else (1, "")
    values = [factor * score["value"] for score in scores]
    spread = [f"{min(values):.2f} to {max(values):.2f}"] if len(values) > 1 else []
    remarks = [*spread, *([f"`{first['signature']}`"] if first["signature"] else [])]
    in_brackets = f" ({'; '.join(remarks)})" if remarks else ""
    return f"{first['name']} {statistics.mean(values):.2f}{unit}{in_brackets}"


def row(directories: Sequence[Path]) -> list[str]:
    """Return the row of one recipe."""
    configs, reports = ([read(path, name) for path in directories] for name in ("config", "report"))
    cells = [cell([r["scores"][name] for r in reports]) for name in SCORES if name in reports[0]["scores"]]
    names = ", ".join(dict.fromkeys(config["name"] for config in configs))
    seeds = ", ".join(str(config["training"]["seed"]) for config in configs)
    minutes = statistics.mean(report["seconds"] / 60 for report in reports)
    return [names, f"{reports[0]['num_items']:,}", "; ".join(cells), seeds, f"{minutes:.1f}"]


def main() -> None:
    """Print a row for each recipe among the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="directories of runs")
    groups: dict[str, list[Path]] = {}
    for directory in parser.parse_args().runs:
        groups.setdefault(recipe(directory), []).append(directory)
    for cells in (HEADS, ("---",) * len(HEADS), *map(row, groups.values())):
        print(f"| {' | '.join(cells)} |")
    print(f"\n{conditions('keras', 'tensorflow', 'sacrebleu')}")


if __name__ == "__main__":
    main()
