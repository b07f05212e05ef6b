"""Data flows one way: the order of the stages, no cycles, and TensorFlow only where it belongs."""

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = "keras_transformer"

# A room imports from itself, and from the rooms before it what they export.
STAGES = (
    "errors",
    "types",
    "_files",
    "_arguments",
    "text",
    "data",
    "_backend",
    "layers",
    "models",
    "visualization",
    "training",
    "decoding",
    "tasks",
    "pretrained",
    "course",
    "evaluation",
    "export",
    "runs",
    "cli",
)

# These run on every Keras backend and import without TensorFlow.
BACKEND_NEUTRAL = (
    "errors",
    "types",
    "_files",
    "_arguments",
    "_backend",
    "layers",
    "models",
    "training",
    "decoding",
    "course",
)

# Only here may an import name a backend; `_backend` imports one inside the function that needs it.
NAMES_A_BACKEND = ("text", "data", "_backend", "tasks", "pretrained", "export", "runs")
BACKENDS = ("tensorflow", "jax", "torch")


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield what each import statement may name: the module, and each name in it as if it were one."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def stage_of(module: str) -> str:
    """Return the stage of a dotted name; the empty string for the package itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else ""


def test_every_stage_has_a_place_in_the_order(trees: dict[str, ast.Module]) -> None:
    assert {stage_of(module) for module in trees} - {""} <= set(STAGES)


def test_a_stage_imports_only_from_earlier_ones(trees: dict[str, ast.Module]) -> None:
    wrong = []
    for module, tree in trees.items():
        stage = stage_of(module)
        targets = {stage_of(name) for name in imported(ast.walk(tree))} & set(STAGES)
        wrong += [
            f"{module} imports {target}"
            for target in sorted(targets)
            if stage and STAGES.index(target) > STAGES.index(stage)
        ]
    assert wrong == [], "\n".join(wrong)


def test_a_stage_imports_only_what_others_export(
    trees: dict[str, ast.Module], exports: dict[str, set[str]]
) -> None:
    """A room that is one file exports its names without an underscore, a folder those of `__all__`."""
    wrong = []
    for module, tree in trees.items():
        for node in ast.walk(tree):
            room = f"{PACKAGE}.{stage_of(getattr(node, 'module', None) or '')}"
            if isinstance(node, ast.ImportFrom) and room in trees and stage_of(module) != stage_of(room):
                names = {alias.name for alias in node.names}
                hidden = names - exports[room] if room in exports else {n for n in names if n[0] == "_"}
                wrong += [f"{module} imports {node.module}.{name}" for name in sorted(hidden)]
    assert wrong == [], "\n".join(wrong)


def import_graph(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports, in a function too."""
    return {
        module: {name for name in imported(ast.walk(tree)) if name in trees and name != module}
        for module, tree in trees.items()
    }


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one import cycle in order, or nothing."""
    finished: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in finished:
            return []
        for target in sorted(graph[module]):
            if cycle := walk(target, [*path, module]):
                return cycle
        finished.add(module)
        return []

    return next((cycle for module in sorted(graph) if (cycle := walk(module, []))), [])


def test_find_cycle() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_no_import_cycles(trees: dict[str, ast.Module]) -> None:
    assert find_cycle(import_graph(trees)) == []


def test_no_relative_imports(trees: dict[str, ast.Module]) -> None:
    relative = [
        f"{module}:{node.lineno}"
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == [], "\n".join(relative)


def test_only_some_rooms_name_a_backend(trees: dict[str, ast.Module]) -> None:
    wrong = [
        f"{module} imports {name}"
        for module, tree in trees.items()
        if stage_of(module) not in NAMES_A_BACKEND
        for name in imported(ast.walk(tree))
        if name.split(".")[0].split("_")[0] in BACKENDS or name.split(".")[0] in ("keras_nlp", "keras_hub")
    ]
    assert wrong == [], "\n".join(wrong)


def test_nothing_is_an_argument_without_being_one(trees: dict[str, ast.Module]) -> None:
    # A context variable, or a table keyed by `id(...)`, decides what a call does and is not seen in it.
    hidden = [
        f"{module}:{node.lineno}"
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("ContextVar", "id")
    ]
    assert hidden == [], "\n".join(hidden)


# `None` in sys.modules makes the import statement raise ModuleNotFoundError.
IMPORT_WITHOUT_TENSORFLOW = """
import importlib, sys
for name in ("tensorflow", "tensorflow_text", "tensorflow_datasets"):
    sys.modules[name] = None
for name in sys.argv[1:]:
    importlib.import_module(name)
import keras
print(keras.backend.backend(), len(sys.argv) - 1)
"""


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_backend_neutral_stages_import_without_tensorflow(
    backend: str, trees: dict[str, ast.Module], tmp_path: Path
) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    modules = [module for module in trees if stage_of(module) in ("", *BACKEND_NEUTRAL)]
    finished = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT_TENSORFLOW, *modules],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": import_path()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == [backend, str(len(modules))]


def import_path() -> str:
    """Return where this process would import the package from, for a process with another directory."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return str(Path(next(iter(spec.submodule_search_locations))).parent)
