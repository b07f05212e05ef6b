"""Test files of other projects, run as they are and with our classes in the place of theirs.

    python benchmarks/conformance.py                                  # the files that Keras is installed with
    pip download keras-nlp==0.6.4 --no-deps --no-binary :all:
    tar xzf keras-nlp-0.6.4.tar.gz
    python benchmarks/conformance.py --keras-nlp keras-nlp-0.6.4 --addons multihead_attention_test.py

The files are read where they are, nothing of them is kept here. `multihead_attention_test.py` is that of
TensorFlow Addons, in `tensorflow_addons/layers/tests`; Addons itself runs with no Keras 3. A test that fails
as it is says nothing of ours; what fails with ours alone is named with its reason.
"""

import argparse
import contextlib
import io
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import pytest
from conformance_adapters import ADAPTERS, GroupedQueryAttention
from machine import machine

from keras_transformer.course import addons
from keras_transformer.layers import MultiHeadAttention


class Run:
    """A plugin of pytest that puts classes into the modules of tests, and keeps what came of each test."""

    def __init__(self, classes: dict[str, type]) -> None:
        self.classes = classes
        self.problems: dict[str, str] = {}

    @pytest.fixture
    def maybe_run_functions_eagerly(self) -> None:
        """Stand for the fixture of Addons."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Put our classes in the place of theirs."""
        for module in {item.module for item in items}:
            known = {name: kind for name, kind in self.classes.items() if hasattr(module, name)}
            vars(module).update(known)
            if hasattr(module, "layers"):
                module.layers = SimpleNamespace(**{**vars(module.layers), **self.classes})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the last line of what went wrong."""
        name = report.nodeid.partition("::")[2]
        if report.failed:
            lines = report.longreprtext.strip().splitlines()
            reasons = [line[1:].strip() for line in lines if line.startswith("E  ") and line[1:].strip()]
            self.problems[name] = " ".join((reasons or lines)[:3])[:160]
        elif report.when == "call" and report.passed and not name.endswith("test_session"):
            self.problems.setdefault(name, "")


def outcomes(path: Path, classes: dict[str, type]) -> dict[str, str]:
    """Run a file: what went wrong with each test, or nothing."""
    run = Run(classes)
    # Quiet, since pytest's own report is that of a file that is not ours.
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        pytest.main(["-q", "-p", "no:cacheprovider", "-c", os.devnull, str(path)], plugins=[run])
    return run.problems


def open_package(name: str, directory: Path) -> None:
    """Let the modules of a package be imported without what its `__init__` imports."""
    module = ModuleType(name)
    module.__path__ = [str(directory)]
    sys.modules[name] = module


def stub_addons() -> None:
    """Let the tests of Addons be imported, where Addons itself is not installed."""
    name = "tensorflow_addons.layers.multihead_attention"
    for package in ("tensorflow_addons", "tensorflow_addons.layers", name):
        open_package(package, Path(os.devnull))
    sys.modules[name].MultiHeadAttention = None


def main() -> None:
    """Print a table, and each test that fails with ours alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keras-nlp", type=Path, help="an unpacked source distribution of KerasNLP 0.6.4")
    parser.add_argument("--addons", type=Path, help="`multihead_attention_test.py` of TensorFlow Addons")
    arguments = parser.parse_args()
    attention = Path(keras.__file__).parent / "src/layers/attention"
    suites: list[tuple[str, Path, dict[str, type]]] = [
        ("Keras", attention / name, {kind.__name__: kind})
        for name, kind in {
            "multi_head_attention_test.py": MultiHeadAttention,
            "grouped_query_attention_test.py": GroupedQueryAttention,
        }.items()
    ]
    if arguments.keras_nlp:
        package = arguments.keras_nlp.resolve() / "keras_nlp"
        for part in ("", "src", "src/layers", "src/layers/modeling", "src/tests", "src/utils"):
            open_package(".".join(["keras_nlp", *filter(None, part.split("/"))]), package / part)
        modeling = package / "src/layers/modeling"
        suites += [("KerasNLP", modeling / name, classes) for name, classes in ADAPTERS.items()]
    if arguments.addons:
        stub_addons()
        suites.append(("Addons", arguments.addons, {"MultiHeadAttention": addons.MultiHeadAttention}))
    print(machine(("keras", keras.backend.backend())))
    print("\n| tests | theirs pass | ours pass |\n|---|---:|---:|")
    left = []
    for project, path, classes in suites:
        theirs = outcomes(path, {}) if project != "Addons" else {}
        ours = outcomes(path, classes)
        passed = [sum(not problem for problem in found.values()) for found in (theirs, ours)]
        of_theirs = f"{passed[0]} of {len(theirs)}" if theirs else "not run"
        print(f"| {project}, `{path.name}` | {of_theirs} | {passed[1]} of {len(ours)} |", flush=True)
        left += [f"- `{name}`: {why}" for name, why in ours.items() if why and not theirs.get(name)]
    print("\nWhat fails with ours alone:\n", *left, sep="\n")


if __name__ == "__main__":
    main()
