"""Checks that the tests notice mistakes: each is made in a copy of the package, and a test has to fail.

python benchmarks/mutants.py
python benchmarks/mutants.py --only export

The mistakes are small and plausible: a sign, a boundary, a step left out. They are made one at a time, in
search, loss, resume and export; those of masks are in tests/conformance/test_masks.py. The tests that are
named here have to pass on the unchanged copy first. Exits with 1 if a mistake survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# What the tests read besides the package; exports are large, and only read.
COPIED, LINKED = ("keras_transformer", "tests", "benchmarks", "pyproject.toml"), ("saved_models", "examples")


class Mutant(NamedTuple):
    """A mistake, and the tests that have to notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: str


DECODING, TRAINING, EXPORT = (f"keras_transformer/{room}" for room in ("decoding", "training", "export"))
MUTANTS = (
    Mutant(
        "a finished hypothesis is extended",
        f"{DECODING}/beam.py",
        "ops.where(ended, LOWEST_SCORE, found.log_probabilities)",
        "found.log_probabilities",
        "tests/decoding/test_beam.py",
    ),
    Mutant(
        "the worst of the wanted hypotheses is not waited for",
        f"{DECODING}/beam.py",
        "limits, last = state.limits, self.num_outputs - 1",
        "limits, last = state.limits, 0",
        "tests/decoding/test_beam.py",
    ),
    Mutant(
        "hypotheses change places and the cache does not",
        f"{DECODING}/beam.py",
        "cache=cache.reorder(rows)",
        "cache=cache",
        "tests/decoding/test_beam.py",
    ),
    Mutant(
        "the z-loss has half its gradient",
        f"{TRAINING}/losses.py",
        "1 + 2 * z_loss * normalizers",
        "1 + z_loss * normalizers",
        "tests/training/test_losses.py",
    ),
    Mutant(
        "the loss of padding may be NaN",
        f"{TRAINING}/losses.py",
        "ops.sum(ops.where(ops.equal(weights, 0), 0.0, values * weights))",
        "ops.sum(values * weights)",
        "tests/training/test_losses.py",
    ),
    Mutant(
        "dropout does not go on where it stood",
        f"{TRAINING}/checkpoint.py",
        "            _set_seeds(model, state.saved[-1].seeds)\n",
        "",
        "tests/training/test_checkpoint.py tests/training/test_restore.py",
    ),
    Mutant(
        "the best epoch is removed with the old ones",
        f"{TRAINING}/checkpoint_state.py",
        "if each in self.saved[-num:] or each.epoch in best",
        "if each in self.saved[-num:]",
        "tests/training/test_checkpoint.py",
    ),
    Mutant(
        "an export is not asked for each text alone",
        f"{EXPORT}/verification.py",
        "[alone] = TextTask.read(name, outputs)",
        "alone = answer",
        "tests/export/test_verification.py",
    ),
    Mutant(
        "an export scores an empty output as nothing",
        f"{EXPORT}/serving_graphs.py",
        "_is_empty(text) & _is_empty(output)",
        "_is_empty(text) | _is_empty(output)",
        "tests/export/test_signatures.py",
    ),
    Mutant(
        "a bucket of an export cuts sources off",
        f"{EXPORT}/serving_graphs.py",
        'tf.searchsorted(sizes, [size], side="left")[0]',
        'tf.searchsorted(sizes, [size - 1], side="left")[0]',
        "tests/export/test_saved_model.py -k each_bucket",
    ),
)


def mutated(text: str, mutant: Mutant) -> str:
    """Return the text with the mistake; what it replaces must stand there exactly once."""
    if text.count(mutant.old) != 1:
        raise ValueError(
            f"the old text of a mutant must occur once in {mutant.file}. "
            f"Received: {mutant.name}, which occurs {text.count(mutant.old)} times."
        )
    return text.replace(mutant.old, mutant.new)


def copy_tree(target: Path) -> None:
    """Copy what the tests need of the checkout."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
    for name in LINKED:
        (target / name).symlink_to(ROOT / name)


def passes(directory: Path, tests: str) -> bool:
    """Run tests, words for pytest, on the package in a directory."""
    # No bytecode: two mutants of one file may have the same size and second.
    environment = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests.split()]
    finished = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    if finished.returncode not in (0, 1):  # 1: a test failed; all others are no tests at all
        raise RuntimeError(f"pytest must run {tests}. Received: {finished.stdout}{finished.stderr}")
    return finished.returncode == 0


def survives(directory: Path, mutant: Mutant) -> bool:
    """Return whether the tests of a mutant pass with its mistake."""
    path = directory / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutated(text, mutant), encoding="utf-8")
    try:
        return passes(directory, mutant.tests)
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Print what became of each mutant.

    Returns:
        The exit status: 1 if one survives.
    """
    parser = argparse.ArgumentParser(description="Checks that the tests notice mistakes.")
    parser.add_argument("--only", default="", help="part of the names of those to make")
    only = parser.parse_args().only
    mutants = [mutant for mutant in MUTANTS if only in mutant.name]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        copy_tree(directory)
        if not all(passes(directory, tests) for tests in {mutant.tests for mutant in mutants}):
            print("The tests fail without a mutant.", file=sys.stderr)
            return 1
        print("| mutant | file | tests | |\n|---|---|---|---|")
        survivors = 0
        for mutant in mutants:
            survived = survives(directory, mutant)
            survivors += survived
            result = "survived" if survived else "killed"
            print(f"| {mutant.name} | {mutant.file} | {mutant.tests} | {result} |", flush=True)
    print(f"\n{len(mutants) - survivors} of {len(mutants)} killed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
