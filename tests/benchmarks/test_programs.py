"""Each program of `benchmarks` starts, and each mutant still has its text in the package."""

import runpy
import sys
from pathlib import Path

import keras
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("the programs measure TensorFlow", allow_module_level=True)

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    if "def main" in path.read_text(encoding="utf-8")
]


@pytest.fixture(autouse=True)
def _benchmarks_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)  # runpy warns of a module that is there already


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_shows_its_help(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(program, run_name="__main__")
    assert not end.value.code
    assert f"python -m {program}" in capsys.readouterr().out


def test_each_mutant_has_its_text_and_its_tests() -> None:
    names = runpy.run_module("benchmarks.robustness.mutants")
    for mutant in names["MUTANTS"]:
        assert names["target"](ROOT, mutant).is_file()
        assert mutant.old != mutant.new
        assert all((ROOT / test).exists() for test in mutant.tests.split() if ".py" in test)
    missing = names["MUTANTS"][0]._replace(old="no such text")
    with pytest.raises(
        ValueError, match=r"once in the package\. Received: .*, found nowhere: 'no such text'"
    ):
        names["target"](ROOT, missing)
