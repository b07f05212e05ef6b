"""Program that returns the outputs of a SavedModel from a process without Keras, JAX and this package.

It is never imported; its text is passed to a new interpreter. Arguments: the directory of the SavedModel, and
`text` if it has operations of TensorFlow Text. Standard input: a pickled dictionary of arrays, a column for
each input, such as `text`, `output` and the options. Standard output: a pickled `_FreshReport` of
`verification`.
"""

import gc
import importlib
import importlib.util
import pickle
import sys
from pathlib import Path
from typing import Any

# What TensorFlow makes here stays until the end; looking for garbage in it took a tenth of the time.
gc.disable()

# Importing one of these raises an ImportError. TensorFlow itself would import JAX.
BLOCKED: dict[str, Any] = {"keras": None, "tf_keras": None, "keras_transformer": None, "jax": None}
sys.modules.update(BLOCKED)

# Not import statements, which would have to come before the line above.
tf = importlib.import_module("tensorflow")
saved_model_pb2 = importlib.import_module("tensorflow.core.protobuf.saved_model_pb2")
op_def_registry = importlib.import_module("tensorflow.python.framework.op_def_registry")

_Columns = dict[str, Any]


def _load_text_operations() -> None:
    """Load the operations of TensorFlow Text, which a server links in; its Python package imports Keras."""
    package: Any = importlib.util.find_spec("tensorflow_text")
    for library in Path(package.origin).parent.glob("python/ops/*.so"):
        tf.load_op_library(str(library))


def _foreign_operations(directory: str) -> list[str]:
    """Return the operations that a server lacks: unknown to TensorFlow, or implemented in Python."""
    saved_model = saved_model_pb2.SavedModel.FromString(Path(directory, "saved_model.pb").read_bytes())
    graphs = [meta_graph.graph_def for meta_graph in saved_model.meta_graphs]
    functions = [function for graph in graphs for function in graph.library.function]
    own = {function.signature.name for function in functions}
    used = {node.op for graph in graphs for node in graph.node}
    used |= {node.op for function in functions for node in function.node_def}
    return sorted(op for op in used - own if "PyFunc" in op or op_def_registry.get(op) is None)


def _report(serve: Any, columns: _Columns) -> dict[str, object]:
    """Return a signature's specification, and its outputs for all rows, each row and no rows."""
    inputs, outputs = serve.structured_input_signature[1], serve.structured_outputs

    def ask(rows: _Columns) -> dict[str, object]:
        tensors = {
            name: tf.constant(rows[name].tolist(), spec.dtype, rows[name].shape)
            for name, spec in inputs.items()
        }
        return {name: values.numpy() for name, values in serve(**tensors).items()}

    return {
        "specification": {
            side: {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()}
            for side, specs in (("inputs", inputs), ("outputs", outputs))
        },
        "together": ask(columns),
        "alone": [
            ask({name: rows[number : number + 1] for name, rows in columns.items()})
            for number in range(len(next(iter(columns.values()))))
        ],
        "of_nothing": ask({name: rows[:0] for name, rows in columns.items()}),
    }


if __name__ == "__main__":
    directory, *options = sys.argv[1:]
    columns = pickle.load(sys.stdin.buffer)
    if "text" in options:
        _load_text_operations()
    result = {"foreign_operations": _foreign_operations(directory), "signatures": {}}
    if not result["foreign_operations"]:
        loaded = tf.saved_model.load(directory)
        result["signatures"] = {name: _report(serve, columns) for name, serve in loaded.signatures.items()}
    pickle.dump(result, sys.stdout.buffer)
