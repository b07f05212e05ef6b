"""A smaller file for the same graph.

Half of `saved_model.pb` are the names of operations, each the path of the layers that made it, once for
itself and once for each operation that it feeds, and the shapes that were known while it was traced. A server
needs neither; otherwise the graph of a small model is as large as its weights.
"""

from pathlib import Path

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_transformer.files import write_file

_SHAPES = "_output_shapes"


def shrink_graph(directory: Path) -> None:
    """Numbers the operations of a SavedModel's functions and leaves out their shapes.

    The fingerprint, which is of the file as it was, goes too.

    Args:
        directory: of the SavedModel.

    Raises:
        InputError: the file cannot be written.
    """
    path = directory / "saved_model.pb"
    saved_model = SavedModel.FromString(path.read_bytes())
    for graph in saved_model.meta_graphs:
        for function in graph.graph_def.library.function:
            _number_operations(function)
            for node in function.node_def:
                if _SHAPES in node.attr:
                    del node.attr[_SHAPES]
    write_file(path, saved_model.SerializeToString(deterministic=True))
    (directory / "fingerprint.pb").unlink(missing_ok=True)


def _number_operations(function: FunctionDef) -> None:
    """Give each operation of a function a short name, and use it wherever it is named."""
    taken = {argument.name for argument in function.signature.input_arg}
    prefix = "n"
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    names = {node.name: f"{prefix}{number}" for number, node in enumerate(function.node_def)}
    for node in function.node_def:
        node.name = names[node.name]
        node.input[:] = [_renamed(reference, names) for reference in node.input]
    for results in (function.ret, function.control_ret):
        for key, reference in list(results.items()):
            results[key] = _renamed(reference, names)


def _renamed(reference: str, names: dict[str, str]) -> str:
    """Rename what `node:output:0`, `^node` or `argument` refers to, if it is a node."""
    control = reference.startswith("^")
    name, *output = reference.removeprefix("^").split(":")
    return "^" * control + ":".join([names.get(name, name), *output])
