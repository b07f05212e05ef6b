"""Compares the speed of training and decoding of two commits of this repository.

python -m benchmarks.compare_commits BEFORE AFTER
python -m benchmarks.compare_commits BEFORE AFTER --quick
python -m benchmarks.compare_commits main HEAD --training small:ours --decoding small:1:greedy:ours-threads

The benchmarks come from this checkout, the packages from the commits. The processes of both commits
alternate, in rotating order. A ratio is `after` divided by `before` in one round: below 1, `after` is slower.
Training is measured for the shapes `small` and `base`; decoding for 1 and 32 sentences, with greedy search
and four beams, for a plain export, one for threads and one compiled by XLA.
"""

import argparse
import io
import statistics
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import ROOT, conditions, median, table
from benchmarks.decoding.cells import Cell, parse_cell
from benchmarks.decoding.peers import Preparation, decode_in_turns
from benchmarks.training.peers import train_in_turns

TRAINING = ("small:ours", "small:ours-xla", "base:ours")
OURS = ("ours", "ours-threads", "ours-xla")
DECODING = tuple(
    f"{shape}:{batch}:{search}:{system}"
    for shape in ("small", "base")
    for system in OURS
    for batch in (1, 32)
    for search in ("greedy", "beam")
)
QUICK_TRAINING = ("small:ours", "base:ours")
QUICK_DECODING = (
    *(f"small:{cell}:{system}" for system in OURS for cell in ("1:greedy", "32:greedy")),
    "small:32:beam:ours-threads",
    "base:1:greedy:ours",
    "base:32:greedy:ours",
)
HEADS = ("tokens a second", "before", "after", "after / before", "of the rounds")


def check_out(commit: str, directory: Path) -> Path:
    """Write the package of a commit to a directory."""
    archive = subprocess.run(
        ["git", "archive", commit, "keras_transformer"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as file:
        file.extractall(directory, filter="data")
    return directory


def row(name: str, before: Sequence[float], after: Sequence[float]) -> list[str]:
    """Return a row of the table."""
    ratios = sorted(after[number] / before[number] for number in range(min(len(before), len(after))))
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}" if ratios else "-"
    return [name, median(before), median(after), median(ratios, "{:.2f}"), spread]


def main() -> None:
    """Measure, and print the table line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", help="a commit")
    parser.add_argument("--quick", action="store_true", help="fewer cells, three rounds: about ten minutes")
    parser.add_argument("--training", nargs="*", help="cells such as small:ours")
    parser.add_argument("--decoding", nargs="*", help="cells such as small:1:greedy:ours-xla")
    parser.add_argument("--rounds", type=int, help="5, or 3 with --quick")
    parser.add_argument("--steps", type=int, default=3, help="training steps of a turn")
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 5)
    training = (
        (QUICK_TRAINING if options.quick else TRAINING) if options.training is None else options.training
    )
    decoding = (
        (QUICK_DECODING if options.quick else DECODING) if options.decoding is None else options.decoding
    )
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        packages = {side: check_out(getattr(options, side), directory / side) for side in ("before", "after")}
        print(table(HEADS), flush=True)

        def show(name: str, values: dict[str, list[float]]) -> None:
            cells = row(name, values["before"], values["after"])
            ratios.extend([] if cells[3] == "-" else [float(cells[3])])
            print(f"| {' | '.join(cells)} |", flush=True)

        for cell in training:
            shape, system = cell.split(":")
            sides = {side: (system, package) for side, package in packages.items()}
            show(f"training {cell}", train_in_turns(shape, sides, rounds, options.steps)[0])
        for shape in dict.fromkeys(cell.split(":")[0] for cell in decoding):
            cells: dict[str, list[Cell]] = {}
            for each in decoding:
                cell, _, system = each.rpartition(":")
                if cell.startswith(f"{shape}:"):
                    cells.setdefault(system, []).append(parse_cell(cell))
            exports = [
                f"{system}:{search}"
                for system, some in cells.items()
                for search in dict.fromkeys(cell.search for cell in some)
            ]
            places = {side: directory / f"{shape}-{side}" for side in packages}
            # Both at once: here nothing is measured.
            for preparation in [
                Preparation(places[side], shape, exports, package=package)
                for side, package in packages.items()
            ]:
                preparation.finish()
            for system, some in cells.items():
                sides = {side: (system, place) for side, place in places.items()}
                for name, values in decode_in_turns(some, sides, rounds)[0].items():
                    show(f"decoding {name}:{system}", values)
    commits = [
        subprocess.run(
            ["git", "rev-parse", "--short", commit], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        for commit in (options.before, options.after)
    ]
    print(f"\nmedian of the ratios: {statistics.median(ratios):.2f}" if ratios else "")
    print(conditions("keras", "tensorflow", note=f"two threads each; commits {' and '.join(commits)}"))


if __name__ == "__main__":
    main()
