"""The formulas have the values that one computes by hand, and fit the layers."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def layer_kinds(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The table of layers as a module."""
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module("layer_kinds")


def test_multiply_adds_by_hand(layer_kinds: ModuleType) -> None:
    # n = 5, d = 2: four projections of 5 * 4, queries and keys 5 * 5 * 2, scores and values the same.
    assert layer_kinds.attention_multiply_adds(5, 2) == 4 * 20 + 50 + 50
    assert layer_kinds.recurrent_multiply_adds(5, 2, 4) == 160
    assert layer_kinds.recurrent_multiply_adds(5, 2, 3) == 120
    assert layer_kinds.convolution_multiply_adds(5, 2, 3) == 60
    counts = [kind.multiply_adds(5, 2) for kind in layer_kinds.KINDS]
    assert counts == [180, 160, 120, 60]


def test_formulas_have_as_many_factors_as_kernels(layer_kinds: ModuleType) -> None:
    """Every weight of a kernel is used once for each position, so the weights say the linear part."""
    for kind in layer_kinds.KINDS:
        layer = kind.build(8)
        layer.build(*([(1, 5, 8)] * (2 if kind.name == "self-attention" else 1)))
        kernels = [weight for weight in layer.weights if "kernel" in weight.name]
        products = 2 * 5 * 5 * 8 if kind.name == "self-attention" else 0
        assert (
            kind.multiply_adds(5, 8) == 5 * sum(weight.shape.num_elements() for weight in kernels) + products
        )
