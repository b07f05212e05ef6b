"""Numbers stand in their cells, and a small run measures every system."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def load(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a module of the programs."""
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module


def test_speeds_stand_beside_their_ratio(load: Callable[[str], ModuleType]) -> None:
    numbers = {
        "rates": {
            "small:1:greedy": {"ours": [300.0, 100.0, 200.0], "ctranslate2": [90.0, 100.0, 110.0]},
            "small:8:beam": {"ours": [], "ctranslate2": [1234.4]},
        },
        "peak": {"ours": 800.4, "ctranslate2": 50.0},
        "loaded": {"ours": 700.0, "ctranslate2": 40.0},
    }
    lines = load("decoding_tables").grid_table("small", numbers)
    assert "| 1:greedy | 8:beam | peak MB (loaded) |" in lines[0]
    assert lines[2:] == [
        "| ours | 200 (2.00x) | - | 800 (700) |",
        "| ctranslate2 | 100 (1.00x) | 1,234 (1.00x) | 50 (40) |",
    ]


def test_growth_is_that_of_the_cost_of_a_token(load: Callable[[str], ModuleType]) -> None:
    lines = load("decoding_tables").length_table("small", {"32": {"ours": [500.0]}, "256": {"ours": [400.0]}})
    assert lines[2:] == ["| ours | 2.000 | 2.500 | 1.25x |"]


def test_percentiles_by_hand(load: Callable[[str], ModuleType]) -> None:
    tables = load("decoding_tables")
    times = [float(n) for n in range(100, 0, -1)]
    assert [tables.percentile(times, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert tables.latency_table("small", {"ours": [0.002, 0.001, 0.003], "marian": []})[2:] == [
        "| ours | 2.00 | 3.00 |",
        "| marian | - | - |",
    ]


def test_the_first_request_stands_before_the_warm_one(load: Callable[[str], ModuleType]) -> None:
    times = {"load": [1.5], "cold": [0.5], "warm": [0.01]}
    assert (
        load("decoding_tables").first_table("small", {"ours": times})[2] == "| ours | 1.50 | 500.0 | 10.0 |"
    )


def test_strings_borrow_the_tokens_of_the_same_weights(load: Callable[[str], ModuleType]) -> None:
    replies = {
        "ours": [{"tokens": 10, "seconds": 2.0}],
        "ours-strings": [{"tokens": 0, "seconds": 5.0}],
        "marian": [],
    }
    assert load("decoding_parts").rates(replies) == {"ours": [5.0], "ours-strings": [2.0], "marian": []}


def test_an_answer_of_another_length_is_no_measurement(load: Callable[[str], ModuleType]) -> None:
    cell = load("decoding_cells").parse_cell("tiny:2:greedy")
    checked = load("decoding_parts").checked
    assert checked({"tokens": 64, "seconds": 1.0}, cell, "ours")["tokens"] == 64
    with pytest.raises(RuntimeError, match=r"marian must answer tiny:2:greedy with 64 tokens\. .*63"):
        checked({"tokens": 63, "seconds": 1.0}, cell, "marian")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cells", "trained:1:greedy"], "the shape `trained` needs --model and --sources."),
        (["--rounds", 0], "must be above zero."),
    ],
)
def test_mistakes_are_named(run_program: Callable[..., str], words: list[object], message: str) -> None:
    assert message in run_program("decoding", *words)


@pytest.mark.slow
def test_a_small_run_measures_ours_beside_ctranslate2(run_program: Callable[..., str]) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
    pytest.importorskip("transformers", reason="the extra `interop` is not installed")
    words = ["--cells", "tiny:2:beam", "--systems", "ours", "ctranslate2", "--rounds", 1]
    output = run_program("decoding", *words, "--lengths", 2, 4, "--requests", 2, "--starts", 1)
    assert output.count("| ours | ") == output.count("| ctranslate2 | ") == 4
    assert "(1.00x)" in output
    assert "`python benchmarks/decoding.py --cells tiny:2:beam" in output
