"""The source tree as the architecture tests see it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "keras_transformer"


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def paths() -> dict[str, Path]:
    """The file of each module of the package, by dotted name."""
    return {_module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.fixture(scope="session")
def trees(paths: dict[str, Path]) -> dict[str, ast.Module]:
    """The syntax tree of each module of the package, by dotted name."""
    return {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in paths.items()}


@pytest.fixture(scope="session")
def exports(paths: dict[str, Path], trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """The names in `__all__` of each folder of the package, by dotted name."""
    return {name: _exported(trees[name]) for name, path in paths.items() if path.name == "__init__.py"}


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _exported(tree: ast.Module) -> set[str]:
    [names] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return set(names)
