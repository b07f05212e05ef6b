"""A SavedModel of a stranger is a program: it is read before any of it runs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

import keras_transformer as kt
from keras_transformer._files import Checksums
from keras_transformer.errors import InputError
from keras_transformer.export import ServedModel, export_saved_model

# What reads or writes files, opens connections, runs Python or code of its own, or goes on after the call.
FOREIGN = [
    *("WriteFile", "ReadFile", "MatchingFiles", "Save", "SaveV2", "RestoreV2", "MergeV2Checkpoints"),
    *("PyFunc", "EagerPyFunc", "PyFuncStateless", "XlaCustomCallV2", "XlaHostCompute", "RemoteCall"),
    *(
        "InitializeTableFromTextFileV2",
        "LoadDataset",
        "TFRecordDataset",
        "TextLineDataset",
        "WholeFileReaderV2",
    ),
    *(
        "RpcClient",
        "DataServiceDatasetV4",
        "PrintV2",
        "AudioSummary",
        "CreateSummaryFileWriter",
        "DebugIdentityV2",
    ),
    *("SymbolicGradient", "TPUExecute", "LoadAndRemapMatrix", "OutfeedEnqueue", "Where ", "where", ""),
]


def rewrite(export: Path, change: Callable[[Any], None]) -> None:
    """Change the graph of an export as its author could, checksums included."""
    path = export / "saved_model.pb"
    saved_model = SavedModel.FromString(path.read_bytes())
    change(saved_model)
    path.write_bytes(saved_model.SerializeToString())
    (export / Checksums.file).unlink()
    Checksums.write(export)


def function_of(saved_model: Any, part: str) -> Any:
    """Find a function by a part of its name; their order changes from one export to the next."""
    functions = saved_model.meta_graphs[0].graph_def.library.function
    return next(each for each in functions if part in each.signature.name)


def initializer(saved_model: Any) -> Any:
    """Find a function that TensorFlow calls when it loads: that of a table."""
    return function_of(saved_model, "initializer")


def add_constant(function: Any, name: str, text: str) -> None:
    value = tf.make_tensor_proto(text)
    node = function.node_def.add(name=name, op="Const")
    node.attr["dtype"].type, _ = value.dtype, node.attr["value"].tensor.CopyFrom(value)


def add_write(saved_model: Any, path: Path) -> None:
    function = initializer(saved_model)
    add_constant(function, "path", str(path))
    add_constant(function, "content", "written")
    function.node_def.add(name="write", op="WriteFile", input=["path:output:0", "content:output:0"])
    function.control_ret["write"] = "write"
    function.signature.control_output.append("write")


def test_a_graph_that_writes_a_file_is_not_loaded(export: Path, command: Callable[..., Any]) -> None:
    target = export.parent / "written.txt"
    rewrite(export, lambda saved_model: add_write(saved_model, target))
    with pytest.raises(
        InputError, match=r"saved_model\.pb has operations that no export has.*: WriteFile\. "
    ):
        ServedModel(export)
    for verb in (["translate", "ab"], ["evaluate", "--source", "texts", "--target", "others"]):
        Path("texts").write_text("ab\n")
        Path("others").write_text("AB\n")
        result = command(*verb, "--saved-model", export)
        assert result.exit_code == 2
        assert re.fullmatch(r"Error: .*: WriteFile\. .* --trust.*\n", result.stderr)
    assert not target.exists()
    # The attack is one: who trusts the author gets it.
    result = command("translate", "ab", "--saved-model", export, "--trust")
    assert result.exit_code == 0
    assert target.read_text() == "written"
    target.unlink()
    ServedModel(export, trust=True)
    assert target.exists()


@pytest.mark.parametrize("place", ["graph", "initializer", "signature"])
def test_foreign_operations_are_named_wherever_they_are(export: Path, place: str) -> None:
    def change(saved_model: Any) -> None:
        nodes = {
            "graph": saved_model.meta_graphs[0].graph_def.node,
            "initializer": initializer(saved_model).node_def,
            "signature": function_of(saved_model, "signature_wrapper").node_def,
        }[place]
        for number, operation in enumerate(FOREIGN):
            nodes.add(name=f"attack_{number}", op=operation)

    rewrite(export, change)
    with pytest.raises(InputError, match=re.escape(f"was not loaded: {', '.join(sorted(FOREIGN))}. ")):
        ServedModel(export)


def call_the_saver(saved_model: Any) -> None:
    graph = saved_model.meta_graphs[0].graph_def
    [save] = [each.signature.name for each in graph.library.function if "traced_save" in each.signature.name]
    node = initializer(saved_model).node_def.add(name="attack", op="StatefulPartitionedCall")
    node.attr["f"].func.name = save


def call_the_saver_in_a_branch(saved_model: Any) -> None:
    call_the_saver(saved_model)
    node = initializer(saved_model).node_def[-1]
    node.op = "If"
    node.attr["branches"].list.func.add().CopyFrom(node.attr.pop("f").func)


def give_the_saver_to_python(saved_model: Any) -> None:
    meta_graph = saved_model.meta_graphs[0]
    for function in meta_graph.graph_def.library.function:
        if "traced_save" in function.signature.name:
            meta_graph.object_graph_def.concrete_functions[function.signature.name].SetInParent()


def name_another_saver(saved_model: Any) -> None:
    # The function of a table is called by the node that is said to be the saver, and by Python.
    meta_graph = saved_model.meta_graphs[0]
    function = initializer(saved_model)
    function.node_def.add(name="attack", op="SaveV2")
    [name] = [
        node.name for node in meta_graph.graph_def.node if node.attr["f"].func.name == function.signature.name
    ]
    meta_graph.saver_def.save_tensor_name = f"{name}:0"


@pytest.mark.parametrize(
    "change", [call_the_saver, call_the_saver_in_a_branch, give_the_saver_to_python, name_another_saver]
)
def test_only_a_server_may_save(export: Path, change: Callable[[Any], None]) -> None:
    rewrite(export, change)
    with pytest.raises(InputError, match=r"was not loaded: .*SaveV2"):
        ServedModel(export)


def add_graph(saved_model: Any) -> None:
    saved_model.meta_graphs.add().CopyFrom(saved_model.meta_graphs[0])


def remove_objects(saved_model: Any) -> None:
    saved_model.meta_graphs[0].ClearField("object_graph_def")


def remove_graphs(saved_model: Any) -> None:
    del saved_model.meta_graphs[:]


@pytest.mark.parametrize("change", [add_graph, remove_objects, remove_graphs])
def test_what_would_be_loaded_as_by_tensorflow_1_is_refused(
    export: Path, change: Callable[[Any], None]
) -> None:
    rewrite(export, change)
    with pytest.raises(InputError, match=r"must hold one graph with its objects\. Received: \d graphs\."):
        ServedModel(export)


@pytest.mark.parametrize("content", [b"meta_graphs { }\n", b"\x00", b"\xff" * 99, b"PK\x03\x04", b"{}"])
def test_what_is_no_protobuf_is_one_line(export: Path, command: Callable[..., Any], content: bytes) -> None:
    (export / "saved_model.pb").write_bytes(content)
    (export / Checksums.file).unlink()
    result = command("translate", "ab", "--saved-model", export)
    assert result.exit_code == 2
    assert re.fullmatch(r"Error: .*saved_model\.pb (is damaged|must hold).*\n", result.stderr)


def test_a_graph_as_text_is_not_read(export: Path) -> None:
    saved_model = SavedModel.FromString((export / "saved_model.pb").read_bytes())
    (export / "saved_model.pbtxt").write_text(text_format.MessageToString(saved_model))
    (export / "saved_model.pb").unlink()
    with pytest.raises(InputError, match=r"has no saved_model\.pb"):
        ServedModel(export)


SOURCES = ["a dog sat", "the cat ran", "a rat"]
RULES = kt.decoding.Constraints(
    min_length=2, max_length_ratio=2.0, banned_token_ids=(5,), no_repeat_ngram_size=2, repetition_penalty=1.2
)
SEARCHES = [
    kt.decoding.GreedySearch(length_penalty=0.5, constraints=RULES),
    kt.decoding.BeamSearch(3, num_hypotheses=2, early_stopping="never", constraints=RULES),
]
MODELS: list[dict[str, Any]] = [
    {"gated": True, "norm_first": True, "normalization": "rms", "activation": "gelu", "positions": "rotary"},
    {"num_key_value_heads": 1, "positions": "relative", "activation": "mish", "tie_output": False},
    {"positions": "learned", "max_length": 30, "activation": "silu", "share_embeddings": True},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "search", "optimize", "options"),
    [  # every kind, every search and every way to export
        (("character", "character"), SEARCHES[0], "float32", MODELS[0]),
        (("subword", "whitespace"), kt.decoding.GreedySearch(), "bfloat16", MODELS[1]),
        (("whitespace", "whitespace"), SEARCHES[1], "xla", MODELS[2]),
    ],
)
def test_every_export_of_the_package_is_loaded(
    tmp_path: Path, kinds: tuple[str, str], search: Any, optimize: str, options: dict[str, Any]
) -> None:
    tokenizers = {
        "character": lambda: kt.text.CharacterTokenizer.train(SOURCES, lowercase=True, normalize_spaces=True),
        "subword": lambda: kt.text.SubwordTokenizer.train(SOURCES, vocabulary_size=18),
        "whitespace": lambda: kt.text.WhitespaceTokenizer.train(SOURCES),
    }
    source, target = (tokenizers[kind]() for kind in kinds)
    sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 8, **options}
    model = kt.Transformer(source.vocabulary_size, target.vocabulary_size, **sizes)
    if optimize == "bfloat16":  # else two answers that are nearly as probable may change places
        model.set_weights(
            [tf.cast(tf.cast(weight, tf.bfloat16), tf.float32) for weight in model.get_weights()]
        )
    limits = {"max_source_length": 20, "max_target_length": 7}
    translator = kt.Translator(model, source, target, search=search, **limits)
    version = export_saved_model(translator, tmp_path / "own", SOURCES, optimize)
    assert ServedModel(version).translate(SOURCES) == translator.translate(SOURCES)
