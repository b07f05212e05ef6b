"""Runs the attention tests of the installed Keras, on Keras's class and on ours.

python -m benchmarks.quality.conformance

A test that fails with Keras's class is not counted; a test that fails only with ours is printed with its
reason.
"""

import argparse
import contextlib
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import pytest

from benchmarks.common import conditions, table
from keras_transformer.layers import MultiHeadAttention


@keras.saving.register_keras_serializable(package="conformance")
class GroupedQueryAttention(MultiHeadAttention):
    """Ours with the arguments of Keras's `GroupedQueryAttention`."""

    def __init__(self, head_dim: int, num_query_heads: int, num_key_value_heads: int, **kwargs: Any) -> None:
        self.head_dim, self.num_query_heads = head_dim, num_query_heads
        self._given = {
            "head_dim": head_dim,
            "num_query_heads": num_query_heads,
            "num_key_value_heads": num_key_value_heads,
            **kwargs,
        }
        super().__init__(num_query_heads, head_dim, num_key_value_heads=num_key_value_heads, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return the given arguments, and those of a Keras layer."""
        return {**self._given, **keras.layers.Layer.get_config(self)}


class Run:
    """Pytest plugin that replaces classes in test modules and keeps the outcome of each test."""

    def __init__(self, classes: dict[str, type]) -> None:
        self.classes = classes
        self.problems: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Replace Keras's classes by ours."""
        for module in {item.module for item in items}:
            if hasattr(module, "layers"):
                module.layers = SimpleNamespace(**{**vars(module.layers), **self.classes})
            vars(module).update({name: each for name, each in self.classes.items() if hasattr(module, name)})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the reason of a failure."""
        name = report.nodeid.partition("::")[2]
        if report.failed:
            lines = report.longreprtext.strip().splitlines()
            reasons = [line[1:].strip() for line in lines if line.startswith("E  ") and line[1:].strip()]
            self.problems[name] = " ".join((reasons or lines)[:3])[:160]
        elif report.when == "call" and report.passed and not name.endswith("test_session"):
            self.problems.setdefault(name, "")


def outcomes(path: Path, classes: dict[str, type]) -> dict[str, str]:
    """Run a file; return the failure of each test, or an empty string."""
    run, nowhere = Run(classes), io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        pytest.main(["-q", "-p", "no:cacheprovider", "-c", os.devnull, str(path)], plugins=[run])
    return run.problems


def main() -> None:
    """Print a table, and each test that fails only with ours."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    directory = Path(keras.__file__).parent / "src/layers/attention"
    classes = {
        "multi_head_attention_test.py": MultiHeadAttention,
        "grouped_query_attention_test.py": GroupedQueryAttention,
    }
    rows, left = [], []
    for name, kind in classes.items():
        theirs, ours = (outcomes(directory / name, given) for given in ({}, {kind.__name__: kind}))
        counts = [f"{[*each.values()].count('')} of {len(each)}" for each in (theirs, ours)]
        rows.append([f"`{name}`", *counts])
        left += [f"- `{test}`: {why}" for test, why in ours.items() if why and not theirs.get(test)]
    print(table(["tests of Keras", "Keras's class passes", "ours passes"], rows))
    print("\nFails only with ours:\n", *left, sep="\n")
    print(f"\n{conditions('keras', keras.backend.backend())}")


if __name__ == "__main__":
    main()
