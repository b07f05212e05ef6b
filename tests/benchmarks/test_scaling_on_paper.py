"""What is computed for many devices is what one computes by hand, and says that it is computed."""

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from keras_transformer import Transformer

SIZES = {"num_layers": 2, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16}


@pytest.fixture
def scaling(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program as a module."""
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module("scaling_on_paper")


def test_the_gradients_are_those_of_the_matrices_of_a_model(scaling: ModuleType) -> None:
    model = Transformer(50, 50, **SIZES, share_embeddings=True)
    matrices = [
        weight for weight in model.trainable_weights if "bias" not in weight.name and len(weight.shape) > 1
    ]
    shape = scaling.Shape(**SIZES, vocabulary=50, batch=4, length=5)
    assert 4 * sum(math.prod(weight.shape) for weight in matrices) == scaling.gradient_bytes(shape)


def test_a_step_by_hand(scaling: ModuleType) -> None:
    shape = scaling.Shape(**SIZES, vocabulary=50, batch=4, length=5)
    size, compute = scaling.gradient_bytes(shape), shape.flops / 1e6
    assert scaling.step_seconds(shape, 1, 1e6, 1e3, 1e2) == pytest.approx(compute)
    assert scaling.step_seconds(shape, 4, 1e6, 1e3, 1e2) == pytest.approx(compute + 1.5 * size / 1e3)
    assert scaling.step_seconds(shape, 16, 1e6, 1e3, 1e2) == pytest.approx(compute + 1.875 * size / 1e2)


def test_the_program_says_that_nothing_was_measured(run_program: Callable[..., str]) -> None:
    lines = run_program("scaling_on_paper", "--network", "50").splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:5]] == ["small", "base", "big"]
    assert lines[-1].startswith("Computed, not measured:")
    assert "50 GB/s between them" in lines[-1]


def test_wrong_speeds(run_program: Callable[..., str]) -> None:
    assert "must be above zero" in run_program("scaling_on_paper", "--link", "0")
