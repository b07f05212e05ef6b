"""The line under a table names what the numbers depend on."""

import importlib
import platform
from importlib import metadata
from pathlib import Path

import pytest


def test_machine_and_versions(benchmarks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(benchmarks)
    line = importlib.import_module("machine").machine(["numpy", "click"])
    assert platform.machine() in line
    assert f"Python {platform.python_version()}" in line
    assert line.endswith(f"numpy {metadata.version('numpy')}, click {metadata.version('click')}")
