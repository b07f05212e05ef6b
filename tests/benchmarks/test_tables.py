"""Numbers stand in the cells of the tables that they belong to."""

import json
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from keras_transformer.evaluation import evaluate
from keras_transformer.runs import RunConfig

Load = Callable[[str], ModuleType]
REPORT = """<testsuites><testsuite>
<testcase classname="tests.layers.test_against_keras" name="test_same_numbers[self]"><properties>
<property name="difference" value="3e-07"/><property name="tolerance" value="1e-05"/></properties></testcase>
<testcase classname="tests.layers.test_against_keras" name="test_same_numbers[cross]"><properties>
<property name="difference" value="4e-06"/><property name="tolerance" value="1e-05"/></properties></testcase>
<testcase name="test_padding_changes_nothing[Encoder, pre-norm-cache]"
classname="tests.conformance.test_masks"><properties>
<property name="difference" value="0"/><property name="tolerance" value="1e-05"/></properties></testcase>
<testcase name="test_padding_changes_nothing[Encoder, pre-norm-jit]"
classname="tests.conformance.test_masks">
<skipped/></testcase>
<testcase classname="tests.conformance.test_layers" name="test_xla[FeedForward]"/>
<testcase classname="tests.conformance.test_layers" name="test_xla[Decoder]">{failure}</testcase>
</testsuite></testsuites>"""


def test_machine_and_versions(load: Load) -> None:
    line = load("machine").machine(["numpy", "click"])
    assert platform.machine() in line
    assert f"Python {platform.python_version()}" in line
    assert line.endswith(f"numpy {metadata.version('numpy')}, click {metadata.version('click')}")


def test_complexity(load: Load) -> None:
    complexity, names = load("complexity"), ["self-attention", "LSTM", "GRU", "convolution, kernel 3"]
    times = {("forward", name, n): n * n / 100 for name in names for n in (10, 20, 40)}
    lines = complexity.time_table(times, "forward", (10, 20, 40))
    assert lines[0] == "| forward, ms | n = 10 | n = 20 | n = 40 | growth |"
    assert lines[2:] == [f"| {name} | 1.00 | 4.00 | 16.00 | n^2.00 |" for name in names]
    lines = complexity.formula_table((16, 512, 1024), 128)
    assert lines[2] == "| self-attention | 4 n d² + 2 n² d | 335,544,320 | n^1.74 | O(1) | O(1) |"
    assert lines[5].endswith("| 50,331,648 | n^1.00 | O(1) | O(n/k) |")


def test_speeds_of_decoding(load: Load) -> None:
    tables = load("decoding_tables")
    numbers = {
        "rates": {
            "small:1:greedy": {"ours": [300.0, 100.0, 200.0], "ctranslate2": [90.0, 100.0, 110.0]},
            "small:8:beam": {"ours": [], "ctranslate2": [1234.4]},
        },
        "peak": {"ours": 800.4, "ctranslate2": 50.0},
        "loaded": {"ours": 700.0, "ctranslate2": 40.0},
    }
    lines = tables.grid_table("small", numbers)
    assert "| 1:greedy | 8:beam | peak MB (loaded) |" in lines[0]
    assert lines[2:] == [
        "| ours | 200 (2.00x) | - | 800 (700) |",
        "| ctranslate2 | 100 (1.00x) | 1,234 (1.00x) | 50 (40) |",
    ]
    lines = tables.length_table("small", {"32": {"ours": [500.0]}, "256": {"ours": [400.0]}})
    assert lines[2:] == ["| ours | 2.000 | 2.500 | 1.25x |"]
    times = {"load": [1.5], "cold": [0.5], "warm": [0.01]}
    assert tables.first_table("small", {"ours": times})[2] == "| ours | 1.50 | 500.0 | 10.0 |"


def test_latencies_of_decoding(load: Load) -> None:
    tables, times = load("decoding_tables"), [float(n) for n in range(100, 0, -1)]
    assert [tables.percentile(times, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    lines = tables.latency_table("small", {"ours": [0.002, 0.001, 0.003], "marian": []})
    assert lines[2:] == ["| ours | 2.00 | 3.00 |", "| marian | - | - |"]


def test_parity(load: Load) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
    parity = load("decoding_parity")
    found = [parity.Difference(3, -1.0, -1.00005), parity.Difference(7, -1.0, -1.5)]
    row, *lines = parity.report("beam 4", 1000, found)
    assert row == "| beam 4 | 1,000 | 99.80 % | 2 | 1 | 1 | 0 |"
    assert lines[1] == "beam 4, line 7: ours -1.000000, CTranslate2 -1.500000, gap +0.500000"


def test_training(load: Load) -> None:
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
    assert training.table("mini", {"ours": results["ours"]}, "kerashub")[2:] == [
        "| ours | 100 | 200 | - | 900 |"
    ]


def test_proof(run_program: Callable[..., str], tmp_path: Path) -> None:
    words = ["proof_tables", "--backends", "tensorflow", "--reports", tmp_path]
    (tmp_path / "tensorflow.xml").write_text(REPORT.format(failure=""), encoding="utf-8")
    output = run_program(*words)
    assert "| keras.layers.MultiHeadAttention | 4e-06 of 1e-05 |" in output
    assert "|  | cache | jit |" in output
    assert "| Encoder, pre-norm | 0 of 1e-05 | - |" in output
    assert "| FeedForward | passed |" in output
    (tmp_path / "tensorflow.xml").write_text(REPORT.format(failure="<failure/>"), encoding="utf-8")
    assert "Some tests failed." in run_program(*words)


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """Write what the table of results reads of a run."""

    def write(directory: str, outputs: list[str], **options: object) -> Path:
        path = tmp_path / directory
        path.mkdir()
        report = evaluate(outputs, ["a b c d", "y"], tokenize="none")
        (path / "report.json").write_text(json.dumps({**report.to_dict(), "seconds": 90}), encoding="utf-8")
        (path / "config.json").write_text(RunConfig().override(**options).model_dump_json(), encoding="utf-8")
        return path

    return write


def test_results(load: Load, write_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        write_run("first", ["a b c d", "x"], name="mine"),
        write_run("other", ["a b c d", "x"], name="mine", dropout=0.2),
        write_run("second", ["a b c d", "y"], name="mine_2", seed=2),
    ]
    load("results_table").main(runs)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| mine")]
    assert len(lines) == 2
    assert lines[0].startswith("| mine, mine_2 | 2 | exact match 75.00 % (50.00 to 100.00)")
    assert lines[0].endswith("| 0, 2 | 1.5 |")
    assert "exact match 50.00 %" in lines[1]
    assert "tok:none" in lines[1]


def test_results_of_runs_that_went_on(
    load: Load, write_run: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    recipes = {"first": {"seed": 1}, "second": {"seed": 2, "distribute": "cores"}, "other": {"dropout": 0.2}}
    before = {name: write_run(name, ["a b c d", "x"], **options) for name, options in recipes.items()}
    runs = [
        write_run(f"{name}_2", ["a", "y"], name="mine", initial_model=str(path))
        for name, path in before.items()
    ]
    load("results_table").main(runs)
    assert capsys.readouterr().out.count("\n| mine") == 2
    (before["second"] / "config.json").unlink()
    load("results_table").main(runs)
    assert capsys.readouterr().out.count("\n| mine") == 3
