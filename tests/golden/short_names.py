"""Shortens the names in the graphs of exports.

    python tests/golden/short_names.py saved_models/sigmorphon2021/1

A graph of a small model weighs as much as its weights, mostly by the names of its nodes and arguments. Nobody
reads them in the exports of the tree, so they are numbers here, and the repository stays small.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_transformer._files import Checksums
from keras_transformer.export import ServedModel


def warmup_requests(version: Path) -> list[tuple[str, dict[str, tf.Tensor]]]:
    """Read the warm-up requests of an export: a signature and its columns each."""
    path = version / "assets.extra" / "tf_serving_warmup_requests"
    logs = map(PredictionLog.FromString, tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    requests = [log.predict_log.request for log in logs]
    return [
        (each.model_spec.signature_name, {name: tf.make_ndarray(each.inputs[name]) for name in each.inputs})
        for each in requests
    ]


def examples(version: Path) -> list[str]:
    """Read the texts with which an export was made."""
    asked = [columns for signature, columns in warmup_requests(version) if signature == "serving_default"]
    return [columns["text"][0].decode() for columns in asked][:8]


def outputs(version: Path) -> list[np.ndarray]:
    """Return all outputs for the warm-up requests, which are of all signatures."""
    served, found = ServedModel(version), []
    for signature, columns in warmup_requests(version):
        given = (tf.constant(columns[name]) for name in served.specification(signature).inputs)
        found += [values.numpy() for _, values in sorted(served[signature](*given).items())]
    return found


def number_nodes(function: FunctionDef, *, with_arguments: bool) -> None:
    """Name the nodes of a function, and its arguments and results, by numbers."""
    signature = function.signature
    arguments = signature.input_arg if with_arguments else ()
    names = {each.name: f"{number:x}" for number, each in enumerate([*function.node_def, *arguments])}

    def renamed(name: str) -> str:
        start, (head, *rest) = name[: name.startswith("^")], name.removeprefix("^").split(":")
        return start + ":".join([names.get(head, head), *rest])

    for node in function.node_def:
        node.name = names[node.name]
        node.input[:] = [renamed(name) for name in node.input]
        node.ClearField("experimental_debug_info")
        for attribute in ("_class", "_output_shapes"):
            node.attr.pop(attribute, None)
    for outputs in (function.ret, function.control_ret):
        for key, name in [*outputs.items()]:
            outputs[key] = renamed(name)
    if with_arguments:
        for argument in arguments:
            argument.name = names[argument.name]
        for attributes in function.arg_attr.values():
            attributes.attr.pop("_user_specified_name", None)
        results = [function.ret.pop(result.name) for result in signature.output_arg]
        for number, (result, name) in enumerate(zip(signature.output_arg, results, strict=True)):
            result.name = f"r{number:x}"
            function.ret[result.name] = name


def shorten(version: Path) -> None:
    """Shorten the names of an export; raise AssertionError, and leave it as it is, if an output changes."""
    with tempfile.TemporaryDirectory() as directory:
        changed = shutil.copytree(version, Path(directory, "1"))
        saved_model = SavedModel.FromString((version / "saved_model.pb").read_bytes())
        for graph in saved_model.meta_graphs:
            # Python reads the arguments of these.
            kept = graph.object_graph_def.concrete_functions
            for function in graph.graph_def.library.function:
                number_nodes(function, with_arguments=function.signature.name not in kept)
        (changed / "saved_model.pb").write_bytes(saved_model.SerializeToString(deterministic=True))
        (changed / "fingerprint.pb").unlink(missing_ok=True)  # of the unchanged file
        (changed / Checksums.file).unlink()
        Checksums.write(changed)
        for before, after in zip(outputs(version), outputs(changed), strict=True):
            if before.dtype == object:
                np.testing.assert_array_equal(after, before)
            else:
                np.testing.assert_allclose(after, before, atol=1e-5)
        for name in ("saved_model.pb", Checksums.file):
            shutil.copy(changed / name, version / name)
        (version / "fingerprint.pb").unlink(missing_ok=True)


if __name__ == "__main__":
    for directory in sys.argv[1:]:
        shorten(Path(directory))
