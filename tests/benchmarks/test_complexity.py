"""The table has every case, and its formulas the values that one computes by hand."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import keras
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("measured in a tf.function", allow_module_level=True)

NAMES = ["self-attention", "LSTM", "GRU", "convolution, kernel 3"]


@pytest.fixture
def complexity(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program as a module."""
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module("complexity")


@pytest.mark.parametrize(("after", "exponent"), [(3.0, 0.0), (6.0, 1.0), (12.0, 2.0)])
def test_growth_is_the_exponent(complexity: ModuleType, after: float, exponent: float) -> None:
    assert complexity.growth(7, 14, 3.0, after) == pytest.approx(exponent)


def test_times_stand_under_their_length(complexity: ModuleType) -> None:
    times = {("forward", name, n): n * n / 100 for name in NAMES for n in (10, 20, 40)}
    lines = complexity.time_table(times, "forward", (10, 20, 40))
    assert lines[0] == "| forward, ms | n = 10 | n = 20 | n = 40 | growth |"
    assert lines[2:] == [f"| {name} | 1.00 | 4.00 | 16.00 | n^2.00 |" for name in NAMES]


def test_formulas_stand_in_their_table(complexity: ModuleType) -> None:
    lines = complexity.formula_table((16, 512, 1024), 128)
    assert lines[2] == "| self-attention | 4 n d² + 2 n² d | 335,544,320 | n^1.74 | O(1) | O(1) |"
    assert lines[3] == "| LSTM | 8 n d² | 134,217,728 | n^1.00 | O(n) | O(n) |"
    assert lines[5].endswith("| 50,331,648 | n^1.00 | O(1) | O(n/k) |")


@pytest.mark.slow
def test_the_small_setting_prints_every_case(run_program: Callable[..., str]) -> None:
    output = run_program("complexity", "--small")
    for name in NAMES:
        rows = re.findall(rf"^\| {name} \| [\d.]+ \| [\d.]+ \| n\^-?[\d.]+ \|$", output, flags=re.MULTILINE)
        assert len(rows) == 2, output  # forward, and forward and backward
    assert "at n = 8" in output
    assert f"keras {keras.__version__}" in output
    assert output.endswith("`python benchmarks/complexity.py --small`\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lengths", 5], "at least two numbers above zero. Received: [5]."),
        (["--width", 12], "--width must be a multiple of 8. Received: 12."),
        (["--repeats", 0], "--repeats must be above zero. Received: 0."),
    ],
)
def test_mistakes_are_named(
    complexity: ModuleType,
    words: list[object],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["complexity.py", *map(str, words)])
    with pytest.raises(SystemExit, match="2"):
        complexity.main()
    assert message in capsys.readouterr().err
