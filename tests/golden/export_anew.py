"""Writes the exports of the tree, with small graphs: from the weights in the tree, or from a run.

    python tests/golden/export_anew.py DIRECTORY                             # `dates` and `cmudict`
    python tests/golden/export_anew.py DIRECTORY runs/en_de multi30k_en_de   # another one, from its run

A graph of a small model weighs as much as its weights, mostly by the names of its nodes. Nobody reads them in
these exports, so they are numbers here, and the repository stays small.
"""

import sys
from pathlib import Path
from typing import Any

import golden_exports
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis import prediction_log_pb2

import keras_transformer as kt
from keras_transformer.export import saved_model

# The limits and the search of each.
MADE = {
    "dates": ((64, 16), kt.decoding.GreedySearch()),
    "cmudict": ((256, 40), kt.decoding.BeamSearch(4, length_penalty=1.0, early_stopping=True)),
}


def examples(version: Path) -> list[str]:
    """Read the texts with which an export was made."""
    path = version / "assets.extra" / "tf_serving_warmup_requests"
    records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    requests = [prediction_log_pb2.PredictionLog.FromString(each).predict_log.request for each in records]
    asked = [each for each in requests if each.model_spec.signature_name == "serving_default"]
    return [tf.make_ndarray(each.inputs["text"])[0].decode() for each in asked][:8]


def number_nodes(function: FunctionDef) -> None:
    """Name the nodes of a function by numbers."""
    names = {node.name: f"{number:x}" for number, node in enumerate(function.node_def)}

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


def write_numbered(task: kt.tasks.ModelTask, directory: Path, *options: Any) -> None:
    """Write the graphs with short names, before they are verified."""
    _write_graphs(task, directory, *options)
    path = directory / "saved_model.pb"
    model = SavedModel.FromString(path.read_bytes())
    for graph in model.meta_graphs:
        for function in graph.graph_def.library.function:
            number_nodes(function)
    path.write_bytes(model.SerializeToString(deterministic=True))
    (directory / "fingerprint.pb").unlink()


def rebuilt(name: str) -> tuple[kt.Translator, list[str]]:
    """Return the translator of an export, and the texts with which it was made."""
    (max_source_length, max_target_length), search = MADE[name]
    translator = golden_exports.rebuilt_translator(name).with_changes(
        search=search, max_source_length=max_source_length, max_target_length=max_target_length
    )
    return translator, examples(golden_exports.SAVED_MODELS / name / "1")


def main() -> None:
    """Read the command line, write and verify."""
    directory, *of_run = sys.argv[1:]
    if of_run:
        run, name = of_run
        made = {name: (kt.Translator.load(run), [*kt.Run.examples(run)])}
    else:
        made = {name: rebuilt(name) for name in MADE}
    for name, (translator, texts) in made.items():
        # Weights of half the size; those of `dates` are small, and show what an export is by default.
        optimize = "float32" if name == "dates" else "bfloat16"
        print(kt.export.export_saved_model(translator, Path(directory, name), texts, optimize))


if __name__ == "__main__":
    _write_graphs, saved_model._write_graphs = saved_model._write_graphs, write_numbered
    main()
