"""The package gives what `record.py` once recorded: tokens exactly, float32 to 1e-6, training to the bit."""

from typing import Any

import golden_files
import golden_training
import keras
import numpy as np
import pytest
import record

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="recorded on TensorFlow, whose rounding is its own"
)
# Greatest differences, relative to numbers above 1: where they were recorded, and on other processors, which
# add up in other orders. Tokens are equal everywhere.
HERE, ELSEWHERE = 1e-6, 3e-5
# A score adds up the log-probabilities of a text. Those recorded of the pronunciations are up to 1.4e-6 from
# what float64 gives, so no other order of the same sums can be asked to be nearer to them than this.
SCORES = 2.0
# What trains in the quick tests; all others do in the slow ones.
QUICK = {"z_loss": "training"}


def check(actual: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    """Compare arrays, and name all that differ."""
    assert sorted(actual) == sorted(expected)
    found = {}
    for name in expected:
        factor = SCORES if name.endswith("score") else 1.0
        found[name] = difference(actual[name], expected[name], factor * tolerance)
    report = "".join(f"\n{name}: {text}" for name, text in found.items() if text)
    assert not report, report


def check_part(part: str) -> None:
    """Compute a part, and compare it."""
    expected, is_here = record.read(part)
    check(record.PARTS[part](), expected, HERE if is_here else ELSEWHERE)


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


@pytest.mark.parametrize("part", ["logits", "sampling", "files"])
def test_same_numbers(part: str) -> None:
    check_part(part)


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["decoding", "rebuilt_dates", "rebuilt_cmudict", "served_dates", "served_cmudict"]
)
def test_same_numbers_of_all_searches(part: str) -> None:
    check_part(part)


def test_same_numbers_in_half_precision() -> None:
    if not record.read("half_logits")[1]:
        pytest.skip("another processor rounds bfloat16 otherwise")
    check_part("half_logits")


def test_saved_models_give_the_logits_of_those_that_were_saved() -> None:
    expected, is_here = record.read("logits")
    expected = {name: expected[name] for name in golden_files.SAVED}
    check(golden_files.saved_logits(), expected, HERE if is_here else ELSEWHERE)


def check_losses(names: dict[str, str]) -> None:
    """Train runs of these names, each of a part; to the bit where they were recorded."""
    actual = golden_training.in_process(names)
    for part in sorted(set(names.values())):
        expected, is_here = record.read(part)
        runs = [name for name in names if names[name] == part]
        check(
            {name: actual[name] for name in runs},
            {name: expected[name] for name in runs},
            0.0 if is_here else 1e-6,
        )


def test_same_losses() -> None:
    check_losses(QUICK)


@pytest.mark.slow
def test_same_losses_of_all_runs() -> None:
    parts = {"training": golden_training.WITHOUT_DROPOUT, "training_dropout": golden_training.WITH_DROPOUT}
    check_losses({name: part for part, runs in parts.items() for name in runs if name not in QUICK})


def test_a_difference_is_found() -> None:
    ones = np.ones((2, 3), "float32")
    assert difference(ones, ones, 0.0) == difference(ones + 5e-7, ones, 1e-6) == ""
    assert difference(ones + 5e-7, ones, 0.0)
    assert difference(ones + 5e-6, ones, 1e-6)
    assert difference(ones * np.nan, ones, 1e-6)
    assert difference(ones, ones[0], 1e-6)
    assert difference(ones.astype("int32"), ones, 1e-6)
    assert difference(np.array(["a b", "c"]), np.array(["a b", "d"]), 1e-6)
