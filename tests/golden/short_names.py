"""Shortens the names in the graphs of exports.

    python tests/golden/short_names.py saved_models/sigmorphon2021/1

A graph of a small model weighs as much as its weights, mostly by the names of its nodes and arguments. Nobody
reads them in the exports of the tree, so they are numbers here, and the repository stays small.
"""

import sys
from pathlib import Path

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis import prediction_log_pb2

from keras_transformer._files import Checksums, write_file
from keras_transformer.export import ServedModel


def examples(version: Path) -> list[str]:
    """Read the texts with which an export was made."""
    path = version / "assets.extra" / "tf_serving_warmup_requests"
    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    requests = [prediction_log_pb2.PredictionLog.FromString(each).predict_log.request for each in records]
    asked = [each for each in requests if each.model_spec.signature_name == "serving_default"]
    return [tf.make_ndarray(each.inputs["text"])[0].decode() for each in asked][:8]


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


def write_graph(path: Path, content: bytes) -> None:
    """Write a graph and the checksums of its directory."""
    write_file(path, content)
    (path.parent / Checksums.file).unlink()
    Checksums.write(path.parent)


def shorten(version: Path) -> None:
    """Shorten the names of an export; raise RuntimeError, and leave it as it is, if its outputs change."""
    texts, path = examples(version), version / "saved_model.pb"
    before, content = ServedModel(version).translate_with_scores(texts), path.read_bytes()
    saved_model = SavedModel.FromString(content)
    for graph in saved_model.meta_graphs:
        # Python reads the arguments of these.
        kept = graph.object_graph_def.concrete_functions
        for function in graph.graph_def.library.function:
            number_nodes(function, with_arguments=function.signature.name not in kept)
    (version / "fingerprint.pb").unlink(missing_ok=True)  # of the unchanged file
    write_graph(path, saved_model.SerializeToString(deterministic=True))
    after = ServedModel(version).translate_with_scores(texts)
    if [(each.text, round(each.score, 5)) for each in after] != [
        (each.text, round(each.score, 5)) for each in before
    ]:
        write_graph(path, content)
        raise RuntimeError(f"{version} has other outputs with short names: {after} instead of {before}.")


if __name__ == "__main__":
    for directory in sys.argv[1:]:
        shorten(Path(directory))
