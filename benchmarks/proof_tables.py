"""Print what the tests measured: references, masks and conformance, on every backend that is installed.

    python benchmarks/proof_tables.py                      all of them, about ten minutes
    python benchmarks/proof_tables.py --backends torch
    python benchmarks/proof_tables.py --reports DIRECTORY  of an earlier run, nothing is run again

Each number is the largest difference that a test found, next to what the test allows.
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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from machine import machine

ROOT = Path(__file__).parents[1]
BACKENDS = ("tensorflow", "jax", "torch")
REFERENCES = {
    "test_multi_head_attention": "NumPy, section 3.2.2 of the paper",
    "test_sinusoids": "NumPy, section 3.5 of the paper",
    "test_feed_forward": "NumPy, section 3.3 of the paper",
    "test_rotary_embedding": "NumPy, equation 15 of RoFormer",
    "test_against_keras": "keras.layers.MultiHeadAttention",
    "test_against_torch": "torch.nn",
}
TESTS = [f"tests/layers/{name}.py" for name in REFERENCES] + ["tests/conformance"]


class Result(NamedTuple):
    """What one test said on one backend."""

    backend: str
    file: str
    test: str
    parameters: str
    passed: bool
    skipped: bool
    difference: float | None
    tolerance: float | None


def run_tests(backend: str, report: Path) -> None:
    """Run the tests on a backend, and write what they recorded.

    Args:
        backend: of Keras.
        report: the JUnit file to write.
    """
    command = [sys.executable, "-m", "pytest", *TESTS, "-q", "-m", "slow or not slow", f"--junitxml={report}"]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    finished = subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=False)
    if finished.returncode not in (0, 1):  # 1: some test failed, which the tables show
        raise SystemExit(f"pytest ended with {finished.returncode} on {backend}.")


def read_report(backend: str, report: Path) -> Iterable[Result]:
    """Read what the tests recorded.

    Args:
        backend: of Keras.
        report: the JUnit file.

    Yields:
        A result for each test.
    """
    for case in ET.parse(report).iter("testcase"):
        match = re.fullmatch(r"(\w+)(?:\[(.*)\])?", case.attrib["name"], flags=re.DOTALL)
        if match is None:
            raise ValueError(
                f"A test's name must be a function and parameters. Received: {case.attrib['name']}."
            )
        numbers = defaultdict(list)
        for entry in case.iter("property"):
            numbers[entry.attrib["name"]].append(float(entry.attrib["value"]))
        kinds = {child.tag for child in case}
        yield Result(
            backend=backend,
            file=case.attrib["classname"].rpartition(".")[2],
            test=match[1],
            parameters=match[2] or "",
            passed=not kinds & {"failure", "error", "skipped"},
            skipped="skipped" in kinds,
            difference=max(numbers["difference"], default=None),
            tolerance=max(numbers["tolerance"], default=None),
        )


def worst(results: Iterable[Result]) -> str:
    """Say how far the worst of some tests was off, or that one failed, or that none ran."""
    ran = [result for result in results if not result.skipped]
    if not ran:
        return "-"
    if not all(result.passed for result in ran):
        return "FAILED"
    measured = [result for result in ran if result.difference is not None and result.tolerance is not None]
    if not measured:
        return "passed"
    difference = max(result.difference or 0.0 for result in measured)
    tolerance = max(result.tolerance or 0.0 for result in measured)
    return f"{difference:.1g} of {tolerance:.2g}"


def table(
    title: str, results: list[Result], row: Callable[[Result], str], column: Callable[[Result], str]
) -> str:
    """Lay results out as a Markdown table.

    Args:
        title: the first cell of the head.
        results: what the cells are made of.
        row: gives the row of a result.
        column: gives its column.

    Returns:
        The table; each cell is the worst of its results.
    """
    cells = defaultdict(list)
    for result in results:
        cells[row(result), column(result)].append(result)
    rows, columns = (list(dict.fromkeys(key[axis] for key in cells)) for axis in (0, 1))
    lines = [[title, *columns], ["---"] * (len(columns) + 1)]
    lines += [[name, *(worst(cells[name, other]) for other in columns)] for name in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def print_tables(results: list[Result]) -> None:
    """Print the three tables.

    Args:
        results: of every backend.
    """
    references = [each for each in results if each.file in REFERENCES and each.difference is not None]
    print("\nAgainst references\n")
    print(table("reference", references, lambda each: REFERENCES[each.file], lambda each: each.backend))
    masks = [each for each in results if each.file == "test_masks" and "-" in each.parameters]
    for backend in dict.fromkeys(each.backend for each in masks):
        for test in ("test_padding_changes_nothing", "test_the_future_changes_nothing"):
            chosen = [each for each in masks if (each.backend, each.test) == (backend, test)]
            print(f"\n{test.removeprefix('test_').replace('_', ' ').capitalize()}: {backend}\n")
            print(table("", chosen, lambda each: split(each)[0], lambda each: split(each)[1]))
    rest = [each for each in results if each.file == "test_masks" and each not in masks]
    rest += [each for each in masks if "changes_nothing" not in each.test]
    print("\nOther checks of masks, caches and precision\n")
    print(
        table(
            "check",
            rest,
            lambda each: each.test.removeprefix("test_").replace("_", " "),
            lambda each: each.backend,
        )
    )
    layers = [each for each in results if each.file == "test_layers" and each.parameters]
    print("\nConformance of every public layer\n")
    by_check = table("layer", layers, lambda each: each.parameters.split("-")[-1], lambda each: each.backend)
    print(by_check)


def split(result: Result) -> tuple[str, str]:
    """Give subject and variant, of a test with both as parameters."""
    subject, _, variant = result.parameters.rpartition("-")
    return subject, variant


def main() -> None:
    """Run the tests where no report is given, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--reports", type=Path, help="a directory of JUnit files named after backends")
    arguments = parser.parse_args()
    installed = [name for name in arguments.backends if importlib.util.find_spec(name)]
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as temporary:
        for backend in installed:
            report = (arguments.reports or Path(temporary)) / f"{backend}.xml"
            if not report.exists():
                run_tests(backend, report)
            results += read_report(backend, report)
    print(machine(["keras", *installed, "numpy"]))
    print_tables(results)
    if any(not result.passed and not result.skipped for result in results):
        raise SystemExit("Some tests failed.")


if __name__ == "__main__":
    main()
