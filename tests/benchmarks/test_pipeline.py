"""The waiting is that of the step, and every pipeline has a row."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import keras
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("measured with a pipeline and a step of TensorFlow", allow_module_level=True)


@pytest.fixture
def pipeline(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program as a module."""
    monkeypatch.syspath_prepend(benchmarks)
    return importlib.import_module("pipeline")


@pytest.mark.parametrize(("batch", "step", "share"), [(3, 1, 0.75), (0, 3, 0), (2, 0, 1)])
def test_waiting_is_the_time_without_a_batch(
    pipeline: ModuleType, batch: int, step: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, steps = [0.0], []
    monkeypatch.setattr(pipeline, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def batches() -> Iterator[tuple[int, int]]:
        for number in range(10):
            now[0] += batch
            yield number, -number

    def train(inputs: int, labels: int) -> None:
        now[0] += step
        steps.append((inputs, labels))

    assert pipeline.waiting(batches(), train, 4) == share
    assert steps == [(0, 0), (1, -1), (2, -2), (3, -3)]
    pipeline.waiting(batches(), train, 99)
    assert len(steps) == 4 + 10


@pytest.mark.slow
def test_every_pipeline_has_a_row(run_program: Callable[..., str], tmp_path: Path) -> None:
    words = ["one", "two", "three", "four", "five", "six"]
    for side in ("a", "b"):
        lines = [f"{side} {words[n % 6]} {words[n // 6 % 6]} {words[n // 36 % 6]}\n" for n in range(216)]
        (tmp_path / side).write_text("".join(lines), encoding="utf-8")
    sizes = ["--vocabulary", 60, "--tokens", 256, "--steps", 3, "--rounds", 1]
    output = run_program("pipeline", tmp_path / "a", tmp_path / "b", *sizes)
    rows = [line.split(" | ") for line in output.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[2:]] == [
        "| in memory",
        "| in memory, subword dropout",
        "| in memory, packed",
        "| tokenized on the fly",
    ]
    assert all(float(row[3].rstrip(" |%")) <= 100 for row in rows[2:])
    assert output.endswith(
        "`python benchmarks/pipeline.py a b --vocabulary 60 --tokens 256 --steps 3 --rounds 1`\n"
    )
