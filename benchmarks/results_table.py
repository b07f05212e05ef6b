"""Prints the table of results in docs/results.md from the reports that `keras-transformer train` wrote.

python benchmarks/results_table.py runs/dates runs/en_de_0 runs/en_de_1 runs/en_de_2

Runs that differ in nothing but seeds, names and the cores that shared a batch have one row: the mean, the
lowest and the highest value. So do runs that went on from such runs, where these are found.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine import machine

PACKAGES = ("keras", "tensorflow", "sacrebleu")
SCORES = ("exact_match", "bleu", "chrf")


def read(directory: Path, name: str) -> dict[str, Any]:
    """Read one of a run's files.

    Args:
        directory: of the run.
        name: "report" or "config".

    Returns:
        what it holds.
    """
    return json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))


def recipe(directory: Path) -> str:
    """Tell runs of one recipe from others.

    Args:
        directory: of a run.

    Returns:
        its configuration as text, without seeds, name and engine, and that of the run it went on from.
    """
    config = read(directory, "config")
    del config["name"], config["training"]["seed"], config["data"]["seed"], config["training"]["distribute"]
    earlier = config["model"]["initial_model"]
    if earlier is not None and Path(earlier, "config.json").is_file():
        config["model"]["initial_model"] = recipe(Path(earlier))
    return json.dumps(config, sort_keys=True)


def cell(scores: Sequence[dict[str, Any]]) -> str:
    """Say what runs scored.

    Args:
        scores: one kind of score, of each run.

    Returns:
        such as "BLEU 40.30 (signature)", or "BLEU 40.30 (40.12 to 40.51; signature)".
    """
    first = scores[0]
    factor, unit = (100, " %") if first["is_fraction"] else (1, "")
    values = [factor * score["value"] for score in scores]
    spread = [f"{min(values):.2f} to {max(values):.2f}"] if len(values) > 1 else []
    remarks = [*spread, *([f"`{first['signature']}`"] if first["signature"] else [])]
    return f"{first['name']} {statistics.mean(values):.2f}{unit}" + (
        f" ({'; '.join(remarks)})" if remarks else ""
    )


def row(directories: Sequence[Path]) -> str:
    """Make the line of one recipe.

    Args:
        directories: of its runs.

    Returns:
        a line of a Markdown table.
    """
    configs, reports = ([read(path, name) for path in directories] for name in ("config", "report"))
    cells = [cell([r["scores"][name] for r in reports]) for name in SCORES if name in reports[0]["scores"]]
    names = ", ".join(dict.fromkeys(config["name"] for config in configs))
    seeds = ", ".join(str(config["training"]["seed"]) for config in configs)
    minutes = statistics.mean(report["seconds"] / 60 for report in reports)
    return f"| {names} | {reports[0]['num_items']:,} | {'; '.join(cells)} | {seeds} | {minutes:.1f} |"


def main(runs: Sequence[Path]) -> None:
    """Print the table of some runs, by their directories."""
    groups: dict[str, list[Path]] = {}
    for directory in runs:
        groups.setdefault(recipe(directory), []).append(directory)
    print("| run | test items | scores | seeds | minutes of a run, all in all |")
    print("|---|---|---|---|---|")
    for directories in groups.values():
        print(row(directories))
    print(f"\n{machine(PACKAGES)}")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
