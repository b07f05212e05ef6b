"""The arithmetic of a step is counted rightly, and a small run measures every library."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import keras_transformer as kt


@pytest.fixture
def load(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a module of the programs."""
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module


def test_the_products_of_a_step_are_counted(load: Callable[[str], ModuleType]) -> None:
    shape = load("training_shapes").Shape(
        num_layers=1, hidden_dim=2, intermediate_dim=3, num_heads=1, vocabulary=5, batch=1, length=4
    )
    attention = 4 * 4 * 2 * 2 + 2 * 4 * 4 * 2  # four projections of four tokens; two products of heads
    feed_forward = 2 * 4 * 2 * 3
    forward = (attention + feed_forward) + (2 * attention + feed_forward) + 4 * 2 * 5
    assert shape.flops == 6 * forward


def test_most_of_it_is_six_times_weights_and_tokens(load: Callable[[str], ModuleType]) -> None:
    shape = load("training_shapes").SHAPES["small"]
    sizes = shape._asdict()
    sizes = {name: sizes[name] for name in ("num_layers", "hidden_dim", "intermediate_dim", "num_heads")}
    model = kt.models.Transformer(shape.vocabulary, shape.vocabulary, **sizes)
    weights = model.count_params() - shape.vocabulary * shape.hidden_dim  # the source's table has no product
    assert shape.flops == pytest.approx(6 * weights * shape.tokens, rel=0.05)


def test_labels_are_the_target_one_step_on(load: Callable[[str], ModuleType]) -> None:
    shapes = load("training_shapes")
    mini = shapes.SHAPES["mini"]
    first, second = shapes.random_batches(mini, 2, seed=1)
    assert np.all(first.target[:, 0] == shapes.START)
    np.testing.assert_array_equal(first.target[:, 1:], first.labels[:, :-1])
    assert np.any(first.source != second.source)
    np.testing.assert_array_equal(shapes.random_batches(mini, 2, seed=1)[1].labels, second.labels)


def test_the_table_by_hand(load: Callable[[str], ModuleType]) -> None:
    training = load("training")
    shape, size = training.SHAPES["mini"], training.Products.size
    results = {
        "kerashub": {"seconds": [0.2, 0.4, 0.3], "peak": 1000.4},
        "ours": {"seconds": [0.1], "peak": 900.0},
        "products": {"seconds": [20 * size**3 / 1e9], "peak": 1.0},
    }
    lines = training.table("mini", results, "kerashub")
    assert "share of 1 GFLOP/s" in lines[0]
    assert lines[2:] == [
        f"| kerashub | 300 | 67 | 1.00 | 1,000 | {shape.flops / 0.3 / 1e9:.0%} |",
        f"| ours | 100 | 200 | 3.00 | 900 | {shape.flops / 0.1 / 1e9:.0%} |",
    ]
    without = training.table("mini", {"ours": results["ours"]}, "kerashub")
    assert without[2:] == ["| ours | 100 | 200 | - | 900 |"]


def test_mistakes_are_named(run_program: Callable[..., str]) -> None:
    assert "must be above zero." in run_program("training", "--rounds", 0)


@pytest.mark.slow
def test_a_small_run_measures_every_library(run_program: Callable[..., str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    systems = ["ours", "ours-bf16", "kerashub", "torch"]
    words = ["--shapes", "mini", "--rounds", 1, "--steps", 2, "--systems", *systems]
    output = run_program("training", *words)
    for system in systems:
        assert output.count(f"| {system} | ") == 1
    assert "`python benchmarks/training.py --shapes mini" in output


@pytest.mark.slow
def test_the_loss_takes_less_memory_than_the_plain_formula(run_program: Callable[..., str]) -> None:
    output = run_program("loss_memory")
    numbers = re.findall(r"\| (ours|plain|keras) \| ([\d,]+) \|", output)
    megabytes = {name: int(number.replace(",", "")) for name, number in numbers}
    assert megabytes["ours"] < 0.6 * megabytes["plain"]
    assert megabytes["ours"] < 0.8 * megabytes["keras"]
