"""The source tree as the architecture tests see it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def paths() -> dict[str, Path]:
    """The file of each module of the package, by dotted name."""
    return {_module_name(path): path for path in sorted((ROOT / "keras_transformer").rglob("*.py"))}


@pytest.fixture(scope="session")
def trees(paths: dict[str, Path]) -> dict[str, ast.Module]:
    """The syntax tree of each module of the package, by dotted name."""
    return {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in paths.items()}


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
