"""Limits that keep the package readable: they are reached by simplifying, never by cutting."""

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import keras_transformer

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | Definition

MAX_FILES = 156
MAX_LINES = 25_050
MEAN_CODE_LINES = 60  # of a file at least; code is neither blank, comment, docstring nor import
MAX_CODE_LINES = {0.9: 200, 1.0: 280}  # of the share of the files that is shorter
MAX_FUNCTION_LINES = {0.5: 7, 0.9: 25, 1.0: 60}
MAX_DOCSTRING_SHARE = 0.60  # lines for each line of code
MIN_COMMENT_SHARE = 0.05
MAX_UNEXPORTED_SHARE = 0.3  # of the definitions without an underscore
MAX_UNEXPORTED_DOCSTRING_LINES = 320
MAX_SHARE_WITH_ONE_USER = 0.36  # of the files
MAX_BASES = 2  # of the package, above a class
MAX_ANY_SHARE = 0.003
MIN_RAISES_WITH_VALUE = 0.9

# Keras calls these by contract; the docstring of the class describes what they do.
KERAS_METHODS = {"build", "call", "compute_mask", "compute_output_shape", "from_config", "get_config"}
BUILTIN_ERRORS = {"ValueError", "TypeError", "KeyError", "RuntimeError"}

Trees = dict[str, ast.Module]
Paths = dict[str, Path]


def is_string(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Return whether a statement is nothing but a string: a docstring, also of a field or a constant."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def spanned(node: ast.stmt) -> range:
    """Return the numbers of the lines of a statement."""
    return range(node.lineno, (node.end_lineno or 0) + 1)


def docstring_lines(tree: ast.AST) -> int:
    """Count the lines of all docstrings."""
    return sum(len(spanned(node)) for node in ast.walk(tree) if is_string(node))


def comment_lines(text: str) -> int:
    """Count the lines that hold a comment and nothing else."""
    return sum(line.strip().startswith("#") for line in text.splitlines())


def code_lines(text: str, tree: ast.Module) -> int:
    """Count the lines that are neither blank, comment, docstring nor import."""
    other: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or is_string(node):
            other.update(spanned(node))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in other
        for number, line in lines
    )


def test_code_lines() -> None:
    text = '"""Doc.\n\nMore."""\n\nimport a\n\n# why\nb = 1\n"""Of b."""\nc = """text\nof two lines"""\n'
    assert code_lines(text, ast.parse(text)) == 3
    assert docstring_lines(ast.parse(text)) == 4
    assert comment_lines(text) == 1


def body_lines(function: Function) -> int:
    """Return the lines of a function without its signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return ((body[-1].end_lineno or 0) - body[0].lineno + 1) if body else 0


def test_body_lines() -> None:
    tree = ast.parse('def f(a,\n      b):\n    """Doc.\n\n    More."""\n    c = a\n    return c\n')
    assert [body_lines(node) for node in tree.body if isinstance(node, Function)] == [2]


def check_limits(lengths: dict[str, int], limits: dict[float, int]) -> None:
    """Fail unless each share of the lengths, from the shortest, is within its limit."""
    ordered = sorted(lengths, key=lengths.__getitem__)
    for share, limit in limits.items():
        name = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        assert lengths[name] <= limit, f"{share:.0%} have at most {lengths[name]} lines: {name}"


def texts(paths: Paths) -> dict[str, str]:
    """Read all modules."""
    return {name: path.read_text(encoding="utf-8") for name, path in paths.items()}


def all_code_lines(paths: Paths, trees: Trees) -> int:
    """Count the lines of code of the package."""
    return sum(code_lines(text, trees[name]) for name, text in texts(paths).items())


def test_the_package_is_small(paths: Paths) -> None:
    assert len(paths) <= MAX_FILES
    assert sum(text.count("\n") for text in texts(paths).values()) <= MAX_LINES


def test_a_file_is_one_concept(paths: Paths, trees: Trees) -> None:
    lengths = {
        name: code_lines(text, trees[name])
        for name, text in texts(paths).items()
        if paths[name].name != "__init__.py"
    }
    assert statistics.mean(lengths.values()) >= MEAN_CODE_LINES
    check_limits(lengths, MAX_CODE_LINES)


def test_functions_are_short(trees: Trees) -> None:
    lengths = {
        f"{name}:{node.lineno}:{node.name}": body_lines(node)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }
    check_limits(lengths, MAX_FUNCTION_LINES)


def test_docstrings_are_shorter_than_code(paths: Paths, trees: Trees) -> None:
    share = sum(map(docstring_lines, trees.values())) / all_code_lines(paths, trees)
    assert share <= MAX_DOCSTRING_SHARE


def test_comments_say_why(paths: Paths, trees: Trees) -> None:
    share = sum(map(comment_lines, texts(paths).values())) / all_code_lines(paths, trees)
    assert share >= MIN_COMMENT_SHARE


def definitions(trees: Trees) -> Iterator[tuple[str, Definition]]:
    """Yield the classes and functions of all modules that have no underscore, by dotted name."""
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                yield f"{module}.{node.name}", node


def test_what_is_not_exported_has_an_underscore(trees: Trees, exports: dict[str, set[str]]) -> None:
    exported = set().union(*exports.values())
    found = dict(definitions(trees))
    inner = {name: node for name, node in found.items() if node.name not in exported}
    assert len(inner) <= MAX_UNEXPORTED_SHARE * len(found), "\n".join(inner)
    lines = {name: sum(map(_own_docstring_lines, ast.walk(node))) for name, node in inner.items()}
    assert sum(lines.values()) <= MAX_UNEXPORTED_DOCSTRING_LINES, sorted(lines.items(), key=lambda x: -x[1])


def _own_docstring_lines(node: ast.AST) -> int:
    has_docstring = isinstance(node, Definition) and ast.get_docstring(node, clean=False) is not None
    return len(spanned(node.body[0])) if isinstance(node, Definition) and has_docstring else 0


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


def test_few_files_have_one_user(paths: Paths, trees: Trees) -> None:
    files = {name for name, path in paths.items() if path.name != "__init__.py"}
    homes = {
        (room, alias.name): node.module
        for room in paths.keys() - files
        for node in trees[room].body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    users: dict[str, set[str]] = {name: set() for name in files}
    for module in files:
        for node in ast.walk(trees[module]):
            if isinstance(node, ast.ImportFrom):
                # A room hands a name on; who imports it there uses the file that it comes from.
                for alias in node.names:
                    home = homes.get((node.module, alias.name), node.module)
                    users.get(str(home), set()).add(module)
    lonely = sorted(name for name in files if len(users[name]) <= 1)
    assert len(lonely) <= MAX_SHARE_WITH_ONE_USER * len(files), "\n".join(lonely)


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


def test_any_is_rare(paths: Paths, trees: Trees) -> None:
    nodes = (node for tree in trees.values() for node in ast.walk(tree))
    count = sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)
    assert count <= MAX_ANY_SHARE * all_code_lines(paths, trees)


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
