"""The program that stands for a server is really alone."""

import ast
import re
from pathlib import Path

from keras_transformer.export import verification

PROGRAM = Path(verification.__file__).with_name("fresh_process.py")


def test_it_imports_nothing_but_tensorflow() -> None:
    tree = ast.parse(PROGRAM.read_text(encoding="utf-8"))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert modules == {"importlib", "importlib.util", "json", "sys"}
    assert re.findall(r"import_module\(\"(\w+)", PROGRAM.read_text(encoding="utf-8")) == ["tensorflow"] * 3


def test_it_blocks_keras_and_this_package() -> None:
    text = PROGRAM.read_text(encoding="utf-8")
    assert '"keras": None' in text
    assert '"keras_transformer": None' in text
