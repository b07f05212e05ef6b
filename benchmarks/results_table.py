"""Prints the README's table of results from the reports that `keras-transformer train` wrote.

python benchmarks/results_table.py runs/dates runs/en_de
"""

import json
import sys
from pathlib import Path

from machine import machine

PACKAGES = ("keras", "tensorflow", "sacrebleu")


def row(directory: Path) -> str:
    """Make the line of one run.

    Args:
        directory: of the run.

    Returns:
        a line of a Markdown table.
    """
    report = json.loads((directory / "report.json").read_text(encoding="utf-8"))
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    scores = report["scores"]
    cells = []
    for name in ("exact_match", "bleu", "chrf"):
        if name in scores:
            score = scores[name]
            value = f"{100 * score['value']:.2f} %" if score["is_fraction"] else f"{score['value']:.2f}"
            signature = f" (`{score['signature']}`)" if score["signature"] else ""
            cells.append(f"{score['name']} {value}{signature}")
    seed, minutes = config["training"]["seed"], report["seconds"] / 60
    return f"| {config['name']} | {report['num_items']:,} | {'; '.join(cells)} | {seed} | {minutes:.1f} |"


def main() -> None:
    """Print the table of the runs that are named on the command line."""
    print("| run | test items | scores | seed | minutes, all in all |")
    print("|---|---|---|---|---|")
    for directory in sys.argv[1:]:
        print(row(Path(directory)))
    print(f"\n{machine(PACKAGES)}")


if __name__ == "__main__":
    main()
