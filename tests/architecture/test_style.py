"""Limits that keep the package readable: they are reached by simplifying, never by cutting."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import keras_transformer

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef

MAX_CODE_LINES = 400  # of a file: neither blank, comment, docstring nor import
MAX_FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 7

# Keras calls these by contract; what they do is said by the docstring of the class.
KERAS_METHODS = {"build", "call", "compute_mask", "compute_output_shape", "from_config", "get_config"}


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


def code_lines(text: str, tree: ast.Module) -> int:
    """Count the lines that are neither blank, comment, docstring nor import."""
    other: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or is_string(node):
            other.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in other
        for number, line in lines
    )


def is_string(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Say whether a statement is nothing but a string, such as a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def test_code_lines() -> None:
    text = '"""Doc.\n\nMore."""\n\nimport a\n\n# why\nb = 1\n"""Of b."""\nc = """text\nof two lines"""\n'
    assert code_lines(text, ast.parse(text)) == 3


def test_files_are_short(paths: dict[str, Path], trees: dict[str, ast.Module]) -> None:
    lengths = {
        name: code_lines(path.read_text(encoding="utf-8"), trees[name]) for name, path in paths.items()
    }
    assert {name: length for name, length in lengths.items() if length > MAX_CODE_LINES} == {}


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


def exported_definitions(trees: dict[str, ast.Module]) -> Iterator[tuple[str, Definition]]:
    """Yield the classes and functions that a room exports, and the public methods of these classes."""
    for module, tree in trees.items():
        room = trees[".".join(module.split(".")[:2])]
        names = {name.value for name in ast.walk(room) if isinstance(name, ast.Constant)}
        for node in tree.body:
            if isinstance(node, Definition) and node.name in names and not node.name.startswith("_"):
                yield f"{module}.{node.name}", node
                for method in node.body if isinstance(node, ast.ClassDef) else []:
                    if isinstance(method, Definition) and not method.name.startswith("_"):
                        yield f"{module}.{node.name}.{method.name}", method


def test_what_is_exported_is_documented(trees: dict[str, ast.Module]) -> None:
    missing = [name for name, tree in trees.items() if not ast.get_docstring(tree)]
    missing += [
        name
        for name, node in exported_definitions(trees)
        if node.name not in KERAS_METHODS and not ast.get_docstring(node)
    ]
    assert missing == [], "\n".join(missing)


def test_the_installed_package_says_that_it_is_typed() -> None:
    [directory] = keras_transformer.__path__
    assert (Path(directory) / "py.typed").exists()
