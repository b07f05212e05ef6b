"""Answers from a SavedModel in a process that has neither Keras nor this package.

The file is run as a program of its own, never imported: its text is handed to a new interpreter.
Arguments: the directory of the SavedModel, and `text` if it has operations of TensorFlow Text.
Standard input: a JSON object of `text` and `output`, lists of strings, one character for each byte.
Standard output: a JSON object; see `verification.FreshAnswers`.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

# Whatever asks for one of these gets an ImportError, TensorFlow itself included.
BLOCKED: dict[str, Any] = {"keras": None, "tf_keras": None, "keras_transformer": None}
sys.modules.update(BLOCKED)

# Not import statements: they would have to stand before the line above.
tf = importlib.import_module("tensorflow")
saved_model_pb2 = importlib.import_module("tensorflow.core.protobuf.saved_model_pb2")
op_def_registry = importlib.import_module("tensorflow.python.framework.op_def_registry")


def load_text_operations() -> None:
    """Loads what a model server links in: the operations of TensorFlow Text, not its Python."""
    package: Any = importlib.util.find_spec("tensorflow_text")
    for library in Path(package.origin).parent.glob("python/ops/*.so"):
        tf.load_op_library(str(library))


def foreign_operations(directory: str) -> list[str]:
    """Lists the operations that a server lacks: unknown to TensorFlow, or made of Python."""
    saved_model = saved_model_pb2.SavedModel.FromString(Path(directory, "saved_model.pb").read_bytes())
    graphs = [meta_graph.graph_def for meta_graph in saved_model.meta_graphs]
    functions = [function for graph in graphs for function in graph.library.function]
    own = {function.signature.name for function in functions}
    used = {node.op for graph in graphs for node in graph.node}
    used |= {node.op for function in functions for node in function.node_def}
    return sorted(op for op in used - own if "PyFunc" in op or op_def_registry.get(op) is None)


def specification(serve: Any) -> dict[str, dict[str, Any]]:
    """Says the dtype and the shape of what goes into a signature and comes out."""
    sides = {"inputs": serve.structured_input_signature[1], "outputs": serve.structured_outputs}
    return {
        side: {name: [spec.dtype.name, spec.shape.as_list()] for name, spec in specs.items()}
        for side, specs in sides.items()
    }


def ask(serve: Any, rows: dict[str, list[bytes]]) -> dict[str, Any]:
    """Calls a signature with those of the columns that it takes."""
    names = serve.structured_input_signature[1]
    outputs = serve(**{name: tf.constant(rows[name], tf.string, [len(rows[name])]) for name in names})
    return {name: values.numpy() for name, values in outputs.items()}


def plain(values: Any) -> Any:
    """Makes lists of arrays, and characters of bytes."""
    if isinstance(values, bytes):
        return values.decode("latin-1")
    if isinstance(values, list):
        return [plain(value) for value in values]
    if isinstance(values, dict):
        return {name: plain(array.tolist()) for name, array in values.items()}
    return values


def report(serve: Any, columns: dict[str, list[bytes]]) -> dict[str, Any]:
    """Asks for all rows together, for each alone, and for none."""
    one_by_one = [{name: [rows[i]] for name, rows in columns.items()} for i in range(len(columns["text"]))]
    nothing = ask(serve, {name: [] for name in columns})
    return {
        "specification": specification(serve),
        "together": plain(ask(serve, columns)),
        "alone": [plain(ask(serve, row)) for row in one_by_one],
        "rows_of_nothing": {name: len(values) for name, values in nothing.items()},
    }


if __name__ == "__main__":
    directory, *options = sys.argv[1:]
    if "text" in options:
        load_text_operations()
    result: dict[str, Any] = {"foreign_operations": foreign_operations(directory), "signatures": {}}
    if not result["foreign_operations"]:
        texts = {name: [t.encode("latin-1") for t in column] for name, column in json.load(sys.stdin).items()}
        loaded = tf.saved_model.load(directory)
        for name, serve in loaded.signatures.items():
            result["signatures"][name] = report(serve, texts)
    json.dump(result, sys.stdout)
