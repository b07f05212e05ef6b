"""Inserts mistakes into a copy of the package, one at a time, and checks that a test fails for each.

python -m benchmarks.robustness.mutants
python -m benchmarks.robustness.mutants --only export

The mistakes are small and plausible: a sign, a boundary, a step left out, in search, loss, resume, tasks,
sources, pretrained models and export; those in masks are in tests/conformance/test_masks.py. The tests that
are listed here must first pass on the unchanged copy. The exit status is 1 if no test notices a mistake.

A mutant names the text that it replaces, not a line or a file, so that code may move. `tests/benchmarks`
fails if the text does not occur exactly once in the package.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# Files that the tests read besides the package. The exports are large and only read.
COPIED, LINKED = ("keras_transformer", "tests", "benchmarks", "pyproject.toml"), ("saved_models", "examples")


class Mutant(NamedTuple):
    """A mistake in the package, and the tests that must notice it."""

    name: str
    old: str
    new: str
    tests: str


MUTANTS = (
    Mutant(
        "a finished hypothesis is extended",
        "ops.where(ended, LOWEST_SCORE, found.log_probabilities)",
        "found.log_probabilities",
        "tests/decoding/test_beam.py",
    ),
    Mutant(
        "the worst of the wanted hypotheses is not waited for",
        "limits, last = state.limits, self.num_outputs - 1",
        "limits, last = state.limits, 0",
        "tests/decoding/test_beam.py",
    ),
    Mutant(
        "hypotheses change places and the cache does not",
        "cache=cache.reorder(rows)",
        "cache=cache",
        "tests/decoding/test_beam.py",
    ),
    Mutant(
        "the z-loss has half its gradient",
        "1 + 2 * z_loss * sums",
        "1 + z_loss * sums",
        "tests/training/test_losses.py",
    ),
    Mutant(
        "a cache is read for another corpus",
        'is_known = None not in (found.get("corpus"), wanted["corpus"])',
        "is_known = False",
        "tests/data/test_id_cache.py",
    ),
    Mutant(
        "a letter is composed with the first letter of the next text",
        "is_found = is_same_row & (found >= 0)",
        "is_found = found >= 0",
        "tests/text/test_lookup.py",
    ),
    Mutant(
        "the loss of padding may be NaN",
        "ops.sum(ops.where(ops.equal(weights, 0), 0.0, values * weights))",
        "ops.sum(values * weights)",
        "tests/training/test_losses.py",
    ),
    Mutant(
        "dropout does not go on where it stood",
        "            _set_seeds(model, state.saved[-1].seeds)\n",
        "",
        "tests/training/test_checkpoint.py tests/training/test_restore.py",
    ),
    Mutant(
        "the best epoch is removed with the old ones",
        "if each in self.saved[-num:] or each.epoch in best",
        "if each in self.saved[-num:]",
        "tests/training/test_checkpoint.py",
    ),
    Mutant(
        "an export is not asked for each text alone",
        "[alone] = read(outputs)",
        "alone = answer",
        "tests/export/test_verification.py",
    ),
    Mutant(
        "an export scores an empty output as nothing",
        "self._task.is_empty(source) & self._target_tokenizer.is_empty((output,))",
        "self._task.is_empty(source) | self._target_tokenizer.is_empty((output,))",
        "tests/export/test_signatures.py",
    ),
    Mutant(
        "a bucket of an export cuts sources off",
        'tf.searchsorted(sizes, [size], side="left")[0]',
        'tf.searchsorted(sizes, [size - 1], side="left")[0]',
        "tests/export/test_saved_model.py -k each_bucket",
    ),
    Mutant(
        "answers come in the order in which they were asked for",
        "for number, result in zip(numbers, served.results(outputs), strict=True):",
        "for number, result in enumerate(served.results(outputs), start):",
        "tests/tasks/test_translator.py",
    ),
    Mutant(
        "a sample depends on its row in a batch",
        "tensors = functions[signature](*columns, numbers)",
        "tensors = functions[signature](*columns, [*range(len(numbers))])",
        "tests/tasks/test_translator.py",
    ),
    Mutant(
        "what is cut off goes unsaid",
        'num_cut += int(outputs.pop("is_cut", np.zeros(0)).sum())',
        'outputs.pop("is_cut", np.zeros(0)).sum()',
        "tests/tasks/test_translator.py",
    ),
    Mutant(
        "a request's number of hypotheses counts for all",
        'tf.where(is_wanted, outputs["score"], LOWEST_SCORE)',
        'outputs["score"]',
        "tests/export/test_signatures.py",
    ),
    Mutant(
        "convolutions read what stands at padding",
        "return layer(values, padding_mask), padding_mask[:, :: self.stride]",
        "return layer(values), padding_mask[:, :: self.stride]",
        "tests/models/test_source.py",
    ),
    Mutant(
        "a mask of another shape is taken for one of the source",
        "if len(shape) != 2 or any(None not in pair and pair[0] != pair[1] for pair in sizes):",
        "if len(shape) != 2:",
        "tests/models/test_source.py",
    ),
    Mutant(
        "a token more of a prefix goes unscored",
        "is_given = limits.num_unscored > position - len(self.constraints.first_token_ids)",
        "is_given = limits.num_unscored >= position - len(self.constraints.first_token_ids)",
        "tests/decoding/test_generation.py tests/tasks/test_text_generator.py",
    ),
    Mutant(
        "a fused product loses its bias",
        'new_names[f"{node.name}:output:0"] = product',
        'new_names[f"{node.name}:output:0"] = fused.input[0]',
        "tests/export/test_saved_model.py -k threads",
    ),
    Mutant(
        "BART's embeddings are not scaled",
        "embeddings=self.d_model**0.5 if self.scale_embedding else 1.0",
        "embeddings=1.0",
        "tests/pretrained/test_translators.py tests/pretrained/test_hugging_face.py",
    ),
    Mutant(
        "an option that a layer does not know is dropped",
        "if unknown := sorted(rest.keys() - {*_KERAS_ARGUMENTS}):",
        "if unknown := sorted(set() & {*_KERAS_ARGUMENTS}):",
        "tests/models/test_config.py",
    ),
)


def target(root: Path, mutant: Mutant) -> Path:
    """Return the file of the package with a mutant's old text; ValueError unless it occurs exactly once."""
    texts = {path: path.read_text(encoding="utf-8") for path in (root / "keras_transformer").rglob("*.py")}
    found = {path: text.count(mutant.old) for path, text in texts.items() if mutant.old in text}
    if sum(found.values()) != 1:
        places = (
            ", ".join(f"{path.relative_to(root)} ({count})" for path, count in found.items()) or "nowhere"
        )
        raise ValueError(
            "The old text of a mutant must occur once in the package. "
            f"Received: {mutant.name!r}, found {places}: {mutant.old!r}"
        )
    return next(iter(found))


def copy_tree(directory: Path) -> None:
    """Copy what the tests need of the checkout."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, directory / name)
    for name in LINKED:
        (directory / name).symlink_to(ROOT / name)


def passes(directory: Path, tests: str) -> bool:
    """Run tests, arguments of pytest, on the package in a directory; return whether they pass."""
    # No bytecode: two mutants of one file may have the same size and second.
    environment = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-q", "-x", "-n0", "-m", "", "-p", "no:cacheprovider"]  # slow tests, too
    command = [sys.executable, "-m", "pytest", *options, *tests.split()]
    finished = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    if finished.returncode not in (0, 1):  # 1: a test failed; all others are no tests at all
        raise RuntimeError(f"pytest must run {tests}. Received: {finished.stdout}{finished.stderr}")
    return finished.returncode == 0


def survives(directory: Path, mutant: Mutant) -> bool:
    """Return whether the tests of a mutant pass with its mistake."""
    path = target(directory, mutant)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return passes(directory, mutant.tests)
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Print the result of each mutant, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of those to make")
    only = parser.parse_args().only
    mutants = [mutant for mutant in MUTANTS if only in mutant.name]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        copy_tree(directory)
        files = {mutant: target(directory, mutant).relative_to(directory) for mutant in mutants}
        for tests in dict.fromkeys(mutant.tests for mutant in mutants):
            if not passes(directory, tests):
                print(f"Without a mutant these must pass: {tests}", file=sys.stderr)
                return 1
        print("| mutant | file | tests | |\n|---|---|---|---|")
        survivors = 0
        for mutant, file in files.items():
            survived = survives(directory, mutant)
            survivors += survived
            result = "survived" if survived else "killed"
            print(f"| {mutant.name} | {file} | {mutant.tests} | {result} |", flush=True)
    print(f"\n{len(mutants) - survivors} of {len(mutants)} killed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
