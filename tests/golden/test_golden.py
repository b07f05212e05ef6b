"""The package gives what `record.py` once recorded: tokens exactly, float32 within rounding."""

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
# Greatest difference, relative to numbers above 1. Another kernel adds up in another order, and neither the
# name of the processor nor the versions tell which kernel runs: two machines that had all of these in common
# differed by up to 7.7e-6. Tokens are equal everywhere.
TOLERANCE = 3e-5
# Of the same with bfloat16, whose numbers have 8 bits.
HALF_TOLERANCE = 2.0**-5
# Losses that are compared: of the others every one. By its tenth step a change of one rounding of all weights
# (6e-8) has changed the loss of this run by 8e-5, later by 4e-3.
STABLE_STEPS = {"CausalLM": 9}
# What trains in the quick tests; all others do in the slow ones.
QUICK = {"z_loss": "training"}


def check(actual: dict[str, Any], expected: dict[str, Any], tolerance: float = TOLERANCE) -> None:
    """Compare arrays, and name all that differ."""
    assert sorted(actual) == sorted(expected)
    found = {name: record.difference(actual[name], expected[name], tolerance) for name in expected}
    report = "".join(f"\n{name}: {text}" for name, text in found.items() if text)
    assert not report, report


def check_part(part: str) -> None:
    """Compute a part, and compare it."""
    check(record.PARTS[part](), record.read(part))


@pytest.mark.slow
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
    check(record.PARTS["half_logits"](), record.read("half_logits"), HALF_TOLERANCE)


def test_saved_models_give_the_logits_of_those_that_were_saved() -> None:
    expected = record.read("logits")
    check(golden_files.saved_logits(), {name: expected[name] for name in golden_files.SAVED})


def check_losses(names: dict[str, str]) -> None:
    """Train runs of these names, each of a part, and compare the losses of each step."""
    recorded = {part: record.read(part) for part in {*names.values()}}
    found = golden_training.in_process(names)
    check(
        {name: found[name][: STABLE_STEPS.get(name)] for name in names},
        {name: recorded[part][name][: STABLE_STEPS.get(name)] for name, part in names.items()},
    )


@pytest.mark.slow
def test_same_losses() -> None:
    check_losses(QUICK)


@pytest.mark.slow
def test_same_losses_of_all_runs() -> None:
    parts = {"training": golden_training.WITHOUT_DROPOUT, "training_dropout": golden_training.WITH_DROPOUT}
    check_losses({name: part for part, runs in parts.items() for name in runs if name not in QUICK})


def test_a_difference_is_found() -> None:
    ones = np.ones((2, 3), "float32")
    assert record.difference(ones, ones, 0.0) == record.difference(ones + 5e-7, ones, 1e-6) == ""
    assert record.difference(ones + 5e-7, ones, 0.0)
    assert record.difference(ones + 5e-6, ones, 1e-6)
    assert record.difference(ones * np.nan, ones, 1e-6)
    assert record.difference(ones, ones[0], 1e-6)
    assert record.difference(ones.astype("int32"), ones, 1e-6)
    assert record.difference(np.array(["a b", "c"]), np.array(["a b", "d"]), 1e-6)
