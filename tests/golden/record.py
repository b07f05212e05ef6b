"""Record the golden outputs that `test_golden.py` compares with.

    PYTHONPATH=tests python tests/golden/record.py            # every part
    PYTHONPATH=tests python tests/golden/record.py sampling   # one part
    PYTHONPATH=tests python tests/golden/record.py saved files   # new saved models, and what they give

A part is a function that gives named arrays, kept in `fixtures/<part>.npz`:

- `logits`, `half_logits`: each model class and option, in float32 and mixed bfloat16; the weights' order too
- `decoding`: each search, constraint and kind of model, on small models
- `rebuilt_dates`, `rebuilt_cmudict`: the committed exports as models of the package, on `sources`
- `served_dates`, `served_cmudict`: the same exports as SavedModels
- `training`: losses of 30 steps, without dropout
- `files`: what the checkpoint, the tokenizers and the translator in `fixtures/files` give
- `sampling`, `training_dropout`: what depends on how random numbers are made

`saved` is no part: it writes `fixtures/files`. Later versions must read those of older ones, so a new version
does not write them again, unless it breaks the promise of CHANGELOG on purpose.

The tests allow what rounding may do on any processor. To show that a change of the code moves nothing at all,
compare with a recording of the commit before, made on the same machine:

    PYTHONPATH=tests python tests/golden/record.py --to /tmp/before       # in a worktree of the commit before
    PYTHONPATH=tests python tests/golden/record.py --against /tmp/before  # names what moved by 1e-6

All parts need TensorFlow.
"""

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path

import golden_decoding
import golden_exports
import golden_files
import golden_models
import golden_training
import numpy as np

FIXTURES = Path(__file__).parent / "fixtures"
PARTS: dict[str, Callable[[], golden_models.Arrays]] = {
    "logits": golden_models.logits,
    "half_logits": golden_models.half_logits,
    "decoding": golden_decoding.decoding,
    "sampling": golden_decoding.sampling,
    "training": functools.partial(golden_training.in_process, golden_training.WITHOUT_DROPOUT),
    "training_dropout": functools.partial(golden_training.in_process, golden_training.WITH_DROPOUT),
    "files": golden_files.answers,
    **{
        f"{kind}_{name}": functools.partial(function, name)
        for name in golden_exports.SIZES
        for kind, function in (("rebuilt", golden_exports.rebuilt), ("served", golden_exports.served))
    },
}


def read(part: str, directory: Path = FIXTURES) -> golden_models.Arrays:
    """Read what was recorded."""
    with np.load(directory / f"{part}.npz") as file:
        return dict(file)


def difference(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> str:
    """Say how two arrays differ, or nothing."""
    if actual.shape != expected.shape or actual.dtype.kind != expected.dtype.kind:
        return f"{actual.dtype} {actual.shape}, not {expected.dtype} {expected.shape}"
    if expected.dtype.kind == "f" and tolerance:
        apart = np.abs(actual - expected) / np.maximum(np.abs(expected), 1)
        return "" if np.all(apart <= tolerance) else f"{np.max(apart):.1e} apart"
    different = np.flatnonzero(actual != expected)
    if not different.size:
        return ""
    first = actual.flat[different[0]], expected.flat[different[0]]
    return f"{different.size} of {actual.size} differ, the first of them {first[0]}, not {first[1]}"


def record(part: str, directory: Path) -> None:
    """Compute a part, and keep what it gives."""
    start = time.monotonic()
    arrays = PARTS[part]()
    path = directory / f"{part}.npz"
    np.savez_compressed(path, **arrays)
    seconds = time.monotonic() - start
    print(f"{part}: {len(arrays)} arrays, {path.stat().st_size:,} bytes, {seconds:.0f} s")


def compare(part: str, directory: Path) -> None:
    """Compute a part, and name what differs from a recording of the same machine."""
    actual, expected = PARTS[part](), read(part, directory)
    for name in sorted({*actual, *expected}):
        if name not in actual or name not in expected:
            print(f"{part}: {name} is only {'there' if name in expected else 'here'}")
        elif text := difference(actual[name], expected[name], 0.0 if part.startswith("training") else 1e-6):
            print(f"{part}: {name}: {text}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "saved", []])
    parser.add_argument("--to", type=Path, default=FIXTURES)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    given.to.mkdir(exist_ok=True)
    for name in given.parts or PARTS:
        if name == "saved":
            golden_files.write()
        elif given.against:
            compare(name, given.against)
        else:
            record(name, given.to)
