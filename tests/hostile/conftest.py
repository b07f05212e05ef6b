"""What attacks damage: the directory of a run, with its checkpoints and translator, and its export."""

import shutil
from pathlib import Path

import pytest

from trained_run import command, trained

__all__ = ["command", "export", "run", "trained"]


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of a run, to be damaged."""
    return shutil.copytree(trained / "runs/tiny", tmp_path / "copy/tiny")


@pytest.fixture
def export(trained: Path, tmp_path: Path) -> Path:
    """A copy of an export, to be damaged."""
    return shutil.copytree(trained / "saved_models/tiny/1", tmp_path / "copy/1")
