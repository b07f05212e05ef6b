"""Writes the table of `docs/accelerators.md` from the JSON of a run.

python -m benchmarks.accelerator.page build/accelerator/results.jsonl
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "accelerators.md"
BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"


def table(lines: list[dict[str, Any]]) -> str:
    """Return a table of Markdown: a row for each check, a column for each backend."""
    backends = list(dict.fromkeys(line["backend"] for line in lines))
    checks = list(dict.fromkeys((line["check"], line["passes_if"]) for line in lines))
    rows = [["check", "passes if", *backends], ["---"] * (2 + len(backends))]
    by_place = {(line["check"], line["backend"]): line for line in lines}
    for name, passes_if in checks:
        cells = [_cell(by_place.get((name, backend))) for backend in backends]
        rows.append([name, passes_if, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(line: dict[str, Any] | None) -> str:
    if line is None:
        return ""
    if line["passed"] is None:
        text = "no verdict: " + line.get("reason", "")
    else:
        text = "passed" if line["passed"] else "**failed** " + line.get("error", "")
    worst = _worst(line)
    return " ".join(f"{text}{worst}".replace("|", "/").split())


def _worst(line: dict[str, Any]) -> str:
    """Return the largest error, if all numbers of a check are errors."""
    numbers = list(line.get("numbers", {}).values())
    if not numbers or not all(isinstance(number, float) and 0 <= number < 0.1 for number in numbers):
        return ""
    return f" (at most {max(numbers):.1e})"


def write_page(lines: list[dict[str, Any]]) -> None:
    """Write the table into the page."""
    devices = sorted({line["device"] for line in lines if line["device"]})
    dry = any(line["dry_run"] for line in lines)
    seconds = sum(line.get("seconds", 0) for line in lines)
    kind = "A dry run on a CPU with tiny sizes." if dry else f"A run on {', '.join(devices)}."
    text = f"{BEGIN}\n\n{kind} {len(lines)} checks in {seconds:.0f} s.\n\n{table(lines)}\n\n{END}"
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: text, page, flags=re.DOTALL), encoding="utf-8")


def main() -> None:
    """Read the command line and write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerator.page", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("results", type=Path, help="results.jsonl of a run")
    path = parser.parse_args().results
    write_page([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])


if __name__ == "__main__":
    main()
