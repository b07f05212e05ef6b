"""Prints the differences between layers and references, and the mask checks, on each installed backend.

python -m benchmarks.quality.references                    all backends, about ten minutes
python -m benchmarks.quality.references --backends torch

The tests record the numbers: the largest difference, and the allowed one.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import ROOT, conditions, table

BACKENDS = ("tensorflow", "jax", "torch")
REFERENCES = {
    "test_multi_head_attention": "NumPy, section 3.2.2 of the paper",
    "test_sinusoids": "NumPy, section 3.5 of the paper",
    "test_feed_forward": "NumPy, section 3.3 of the paper",
    "test_rotary_embedding": "NumPy, equation 15 of RoFormer",
    "test_against_keras": "keras.layers.MultiHeadAttention",
    "test_against_torch": "torch.nn",
}
MASKS = "test_masks"
TESTS = [*(f"tests/layers/{name}.py" for name in REFERENCES), f"tests/conformance/{MASKS}.py"]


class Result(NamedTuple):
    """The result of one test on one backend."""

    backend: str
    file: str
    test: str
    status: str
    difference: float | None
    tolerance: float | None


def results_of(backend: str, report: Path) -> Iterator[Result]:
    """Run the tests on a backend, and yield what they recorded in a JUnit file."""
    command = [sys.executable, "-m", "pytest", *TESTS, "-q", "-m", "slow or not slow", f"--junitxml={report}"]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    finished = subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=False)
    if finished.returncode not in (0, 1):  # 1: a test failed, which the tables show
        raise SystemExit(f"pytest ended with {finished.returncode} on {backend}.")
    for case in ET.parse(report).iter("testcase"):
        numbers = defaultdict(list)
        for entry in case.iter("property"):
            numbers[entry.attrib["name"]].append(float(entry.attrib["value"]))
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        name = re.sub(r"\[.*", "", case.attrib["name"], flags=re.DOTALL)
        yield Result(
            backend,
            case.attrib["classname"].rpartition(".")[2],
            name.removeprefix("test_").replace("_", " "),
            next(iter(kinds), "passed"),
            max(numbers["difference"], default=None),
            max(numbers["tolerance"], default=None),
        )


def worst(results: Sequence[Result]) -> str:
    """Return the largest and the allowed difference, or that a test failed or none ran."""
    ran = [result for result in results if result.status != "skipped"]
    if not ran:
        return "-"
    if any(result.status != "passed" for result in ran):
        return "FAILED"
    measured = [result for result in ran if result.difference is not None]
    if not measured:
        return "passed"
    difference = max(result.difference or 0.0 for result in measured)
    return f"{difference:.1g} of {max(result.tolerance or 0.0 for result in measured):.2g}"


def main() -> None:
    """Run the tests, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    installed = [name for name in parser.parse_args().backends if importlib.util.find_spec(name)]
    rows: dict[str, dict[tuple[str, str], list[Result]]] = {"reference": {}, "check": {}}
    with tempfile.TemporaryDirectory() as directory:
        for backend in installed:
            for result in results_of(backend, Path(directory, f"{backend}.xml")):
                kind = "reference" if result.file in REFERENCES else "check"
                name = REFERENCES.get(result.file, result.test)
                if kind == "check" or result.difference is not None or result.status == "failure":
                    rows[kind].setdefault((name, backend), []).append(result)
    for kind, cells in rows.items():
        names = dict.fromkeys(name for name, _ in cells)
        lines = [[name, *(worst(cells.get((name, each), [])) for each in installed)] for name in names]
        print(table([kind, *installed], lines), end="\n\n")
    print(conditions("keras", *installed, "numpy"))
    if any(worst(results) == "FAILED" for cells in rows.values() for results in cells.values()):
        raise SystemExit("Some tests failed.")


if __name__ == "__main__":
    main()
