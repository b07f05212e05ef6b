"""The next version of an export."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_versions_go_up(run: Callable, trained: Path) -> None:
    for version in (1, 2):
        result = run("export", trained / "runs/tiny", "served/tiny", "--example", "w1ab")
        assert result.exit_code == 0, result.output
        assert Path(result.stdout.strip()) == Path("served/tiny", str(version))


@pytest.mark.slow
def test_ctranslate2(run: Callable, trained: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `interop` is not installed")
    words = ("export", trained / "runs/tiny", "engine", "--format", "ctranslate2")
    result = run(*words)
    assert (result.exit_code, result.stdout) == (0, "engine\n"), result.output
    assert ctranslate2.contains_model("engine")
    result = run(*words)
    assert result.exit_code == 2
    assert "Cannot write engine: it is there already." in result.stderr


def test_a_directory_that_is_no_model(run: Callable) -> None:
    result = run("export", "nothing", "served/tiny")
    assert result.exit_code == 2
    assert "nothing is not the directory of a model" in result.stderr
    assert not Path("served").exists()
