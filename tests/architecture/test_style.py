"""Limits that keep the package readable, and the rule that tests mirror sources."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import keras_transformer

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef

MAX_FILE_LINES = 260
MEDIAN_FILE_LINES = 130
MAX_FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 7

# Keras calls these by contract; what they do is said by the docstring of the class.
KERAS_METHODS = {"build", "call", "compute_mask", "compute_output_shape", "from_config", "get_config"}

# Module -> test file, where a mirror of the path would hold nothing of its own.
TESTED_ELSEWHERE = {
    "keras_transformer.types": "tests/architecture/test_stages.py",
}


def functions(tree: ast.Module) -> Iterator[Function]:
    """Yield every function and method."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def body_lines(function: Function) -> int:
    """Return the lines of a function without its signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return ((body[-1].end_lineno or 0) - body[0].lineno + 1) if body else 0


def test_body_lines() -> None:
    tree = ast.parse('def f(a,\n      b):\n    """Doc.\n\n    More."""\n    c = a\n    return c\n')
    assert [body_lines(function) for function in functions(tree)] == [2]


def test_files_are_short(paths: dict[str, Path]) -> None:
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in paths.items()}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}
    assert statistics.median(length for length in lengths.values() if length > 2) <= MEDIAN_FILE_LINES


def test_functions_are_short(trees: dict[str, ast.Module]) -> None:
    lengths = {
        f"{name}:{function.lineno}:{function.name}": body_lines(function)
        for name, tree in trees.items()
        for function in functions(tree)
    }
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}
    assert statistics.median(lengths.values()) <= MEDIAN_FUNCTION_LINES


def test_no_assert_in_the_package(trees: dict[str, ast.Module]) -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]
    assert found == [], "\n".join(found)


def public_definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Definition]]:
    """Yield classes, functions and methods whose names, and whose classes' names, are public."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_") and node.name not in KERAS_METHODS:
            yield f"{prefix}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body, f"{prefix}.{node.name}")


def test_every_public_item_is_documented(trees: dict[str, ast.Module]) -> None:
    missing = [name for name, tree in trees.items() if not ast.get_docstring(tree)]
    for module, tree in trees.items():
        missing += [
            name for name, node in public_definitions(tree.body, module) if not ast.get_docstring(node)
        ]
    assert missing == [], "\n".join(missing)


def mirror(path: Path, root: Path) -> Path:
    """Return the test file that belongs to a source file."""
    inside = path.relative_to(root / "keras_transformer")
    return root / "tests" / inside.parent / f"test_{inside.name}"


def test_every_module_has_a_test_file(paths: dict[str, Path], root: Path) -> None:
    modules = {name: path for name, path in paths.items() if path.name != "__init__.py"}
    missing = [
        f"{name}: {mirror(path, root).relative_to(root)}"
        for name, path in modules.items()
        if name not in TESTED_ELSEWHERE and not mirror(path, root).exists()
    ]
    assert missing == [], "\n".join(missing)


def test_modules_tested_elsewhere_exist(paths: dict[str, Path], root: Path) -> None:
    for module, test_file in TESTED_ELSEWHERE.items():
        assert module in paths
        assert (root / test_file).exists()
        assert not mirror(paths[module], root).exists(), f"{module} has a test file of its own"


def test_the_installed_package_says_that_it_is_typed() -> None:
    [directory] = keras_transformer.__path__
    assert (Path(directory) / "py.typed").exists()
