"""Rules that keep the package readable. No test holds a count; CONTRIBUTING.md says how size is judged."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import keras_transformer

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef

MAX_BASES = 3  # of the package, above a class: a translator searches, holds a model, and writes texts
MIN_RAISES_WITH_VALUE = 0.9

# Keras calls these by contract; the docstring of the class describes what they do.
KERAS_METHODS = {"build", "call", "compute_mask", "compute_output_shape", "from_config", "get_config"}
BUILTIN_ERRORS = {"ValueError", "TypeError", "KeyError", "RuntimeError"}

Trees = dict[str, ast.Module]
Paths = dict[str, Path]


def texts(paths: Paths) -> dict[str, str]:
    """Read all modules."""
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}


def definitions(trees: Trees) -> Iterator[tuple[str, Definition]]:
    """Yield the classes and functions of all modules that have no underscore, by dotted name."""
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                yield f"{module}.{node.name}", node


def test_what_is_exported_is_documented(trees: Trees, exports: dict[str, set[str]]) -> None:
    missing = [name for name, tree in trees.items() if not ast.get_docstring(tree)]
    exported = set().union(*exports.values())
    for name, node in definitions(trees):
        members = node.body if isinstance(node, ast.ClassDef) else []
        methods = [member for member in members if isinstance(member, Function)]
        for item in (node, *methods) if node.name in exported else ():
            if not item.name.startswith("_") and item.name not in KERAS_METHODS:
                missing += [] if ast.get_docstring(item) else [f"{name}: {item.name}"]
    assert missing == [], "\n".join(missing)


def test_a_class_stands_below_few_others(trees: Trees) -> None:
    bases = {
        node.name: [ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases]
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    deep = {name for name in bases if height(name, bases) > MAX_BASES}
    assert deep == set()


def height(name: str, bases: dict[str, list[str]]) -> int:
    """Count the classes of the package on the longest way up from a class."""
    # A name that is also that of its base, as of Keras, leads out of the package.
    return max((1 + height(base, bases) for base in bases[name] if base in bases and base != name), default=0)


def test_height() -> None:
    bases = {"Base": ["Layer"], "Child": ["Mixin", "Base"], "Grandchild": ["Child"], "Adam": ["Adam"]}
    assert [height(name, bases) for name in bases] == [0, 1, 2, 0]


def test_errors_carry_what_was_received(trees: Trees) -> None:
    raised = {
        f"{name}:{node.lineno}": any(
            isinstance(part, ast.FormattedValue | ast.BinOp) for part in ast.walk(node.exc)
        )
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) in BUILTIN_ERRORS
    }
    without = [name for name, has_value in raised.items() if not has_value]
    assert len(without) <= (1 - MIN_RAISES_WITH_VALUE) * len(raised), "\n".join(without)


def test_a_tensor_is_a_tensor(trees: Trees) -> None:
    """Dictionaries of keywords and rows of arguments are none."""
    found = [
        f"{name}:{node.lineno}: {argument.arg}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
        for argument in (node.args.vararg, node.args.kwarg)
        if argument and isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Tensor"
    ]
    assert found == [], "\n".join(found)


def test_nothing_is_asserted_suppressed_or_left_to_do(paths: Paths, trees: Trees) -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]
    pattern = r"noqa|type: ignore|pylint: disable|TODO|FIXME|XXX"
    found += [
        f"{name}: {match}" for name, text in texts(paths).items() for match in re.findall(pattern, text)
    ]
    assert found == [], "\n".join(found)


def test_the_installed_package_says_that_it_is_typed() -> None:
    [directory] = keras_transformer.__path__
    assert (Path(directory) / "py.typed").exists()
