"""Prints the table of results of docs/results.md from the reports that `keras-transformer train` wrote.

python -m benchmarks.quality.results runs/dates runs/en_de_0 runs/en_de_1 runs/en_de_2
python -m benchmarks.quality.results --records docs/results.jsonl

Runs that differ only in seed, name and `distribute` share a row: the mean, the lowest and the highest value.
Runs that continue such runs share a row too, if the first runs are found.
`--records` prints the table of what `examples/recipes/reproduce.py --record` wrote.
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
RECORD_HEADS = ("result", "measure", "score", "published", "seeds", "parameters", "minutes", "commit")


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


def record_row(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the row of one result: its seeds together."""
    first, scores = records[0], [record["score"] for record in records]
    spread = f" ({min(scores):.2f} to {max(scores):.2f})" if len(scores) > 1 else ""
    seeds = ", ".join(str(record["seed"]) for record in records)
    minutes = statistics.mean(record["minutes"] for record in records)
    return [
        f"`{first['result']}`",
        first["measure"],
        f"{statistics.mean(scores):.2f}{spread}",
        first["published"],
        seeds,
        f"{first['parameters']:,}",
        f"{minutes:.0f}",
        ", ".join(dict.fromkeys(record["commit"] for record in records)),
    ]


def record_table(path: Path) -> str:
    """Return the table of the records in a file, a row for each result."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        groups.setdefault(record["result"], []).append(record)
    rows = (RECORD_HEADS, ("---",) * len(RECORD_HEADS), *map(record_row, groups.values()))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def main() -> None:
    """Print a row for each recipe among the runs, or for each result among the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", help="directories of runs")
    parser.add_argument("--records", type=Path, help="file of records")
    options = parser.parse_args()
    if options.records:
        print(record_table(options.records), end="")
        return
    groups: dict[str, list[Path]] = {}
    for directory in options.runs:
        groups.setdefault(recipe(directory), []).append(directory)
    for cells in (HEADS, ("---",) * len(HEADS), *map(row, groups.values())):
        print(f"| {' | '.join(cells)} |")
    print(f"\n{conditions('keras', 'tensorflow', 'sacrebleu')}")


if __name__ == "__main__":
    main()
