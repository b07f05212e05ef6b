"""Export of a task as a SavedModel for TensorFlow Serving."""

import collections
import itertools
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from keras_transformer._arguments import check_choice, check_positive
from keras_transformer._files import Checksums, as_path, errors_named, numbered_directory, write_file
from keras_transformer.errors import InputError
from keras_transformer.export.readmes import _fill_template, _saved_model_readme
from keras_transformer.export.serving_graphs import (
    WARM_BATCH_SIZES,
    _bucket_lengths,
    _served_signatures,
    _ServingGraphs,
)
from keras_transformer.export.verification import MAX_EXAMPLES, _Expected, _verify_results
from keras_transformer.export.weights import _with_rounded_weights
from keras_transformer.tasks import ModelTask, SearchTask
from keras_transformer.types import OPTIMIZATIONS, Value

_WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
# Next to the versions: the server ignores files and directories that are not named by a number.
_MODELS_CONFIG = "models.config"


def export_saved_model(
    task: ModelTask,
    directory: str | Path,
    examples: Iterable[Value] = (),
    optimize: str = "float32",
    threads: int | None = None,
) -> Path:
    """Export a task as the next version of a SavedModel for TensorFlow Serving.

    The version appears only after `verify_saved_model` has passed, so a server that watches the directory
    never loads an incomplete model. Its README explains how to serve it.

    Args:
        task: A task, such as a `Translator`, on the TensorFlow backend. If it samples outputs, the signature
            `search` takes a seed; the other signatures return the same sample each time.
        directory: Directory of the model. Its name is the model's name; each version is a subdirectory named
            by a number.
        examples: Real sources; the first 8 are used for the verification and the warm-up. For `xla`, pass
            sources of typical lengths. Defaults to one source of a few tokens of the vocabulary.
        optimize: `float32`; `bfloat16`, which halves the size of the weights, but may return another output
            of nearly the same probability; or `xla`, which compiles the search for a few lengths, with the
            same outputs. Defaults to `float32`.
        threads: CPU only: split the sources of each request across this many threads, for example server
            cores / concurrent requests. Usually faster, with the same outputs. By default,
            TensorFlow parallelises each operation instead.

    Returns:
        The directory of the new version. `models.config` is written to `directory` unless it exists.

    Raises:
        InputError: If the directory cannot be written, the directory is itself a version, or Keras does not
            run on TensorFlow.
        ExportError: If the SavedModel's results differ from the task's. It is then deleted.
        ValueError: If `optimize` is unknown, `xla` or `threads` is not supported for the task, or its search
            is random and has no `seed` field.
    """
    _check_exportable(task, ModelTask)
    task = task.repeatable()
    check_choice(OPTIMIZATIONS, optimize=optimize)
    if threads is not None:
        check_positive(threads=threads)
    directory = as_path(directory)
    if (directory / "saved_model.pb").exists():
        raise InputError(
            f"`directory` must be that of a model, with its versions in it. Received: {directory}, a version."
        )
    if (optimize == "xla" or threads is not None) and not isinstance(task, SearchTask):
        raise ValueError(
            "`optimize` 'xla' and `threads` are for tasks that search. Received: "
            f"optimize={optimize!r}, threads={threads}, a {type(task).__name__}."
        )
    if optimize == "xla" and task.reader.unit != "tokens":
        raise ValueError(
            "`optimize` must not be 'xla' for a model that reads frames: its sizes are those of token ids. "
            f"Received: optimize={optimize!r}."
        )
    given = task.reader.check("examples", examples)[:MAX_EXAMPLES] or [task.reader.example()]
    expected = _Expected.of(_with_rounded_weights(task) if optimize == "bfloat16" else task, given)
    name, columns = _model_name(directory), task.request_columns(given, expected.results)
    with errors_named("write", directory), numbered_directory(directory) as (version, partial):
        written = partial / "written"
        written.mkdir()
        _write_graphs(task, written, optimize, threads)
        # Verified under another path than it was written to, as when it is deployed.
        for entry in list(written.iterdir()):
            entry.rename(partial / entry.name)
        written.rmdir()
        rows = _rows_by_length(task, given) if optimize == "xla" else []
        warmup_rows = _write_warmup_requests(partial, name, task, optimize, columns, rows)
        readme = _saved_model_readme(task, name, version, optimize, threads, columns, partial, warmup_rows)
        (partial / "README.md").write_text(readme, encoding="utf-8", errors="replace")
        _verify_results(partial, task, expected)
        Checksums.write(partial)
        _write_models_config(directory / _MODELS_CONFIG, name)
    return directory / str(version)


def _check_exportable(task: object, kind: type) -> None:
    """Raise TypeError for another kind of object, InputError if Keras does not run on TensorFlow."""
    if not isinstance(task, kind):
        wanted = "task, such as a Translator" if kind is ModelTask else kind.__name__
        received = type(task).__name__
        raise TypeError(f"`task` must be a {wanted}, of a model and tokenizers. Received: a {received}.")
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "Export needs the TensorFlow backend: set KERAS_BACKEND=tensorflow and load the model again. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}."
        )


def _model_name(directory: Path) -> str:
    """Return the last part of a path: for a link its own name, for `..` the directory's."""
    name = directory.absolute().name
    return directory.resolve().name if name == ".." else name


def _write_graphs(task: ModelTask, directory: Path, optimize: str, threads: int | None) -> None:
    """Write the SavedModel, with the vocabularies as assets."""
    task = _with_common_tokenizer(task)
    graphs = _ServingGraphs(task, optimize, threads)
    signatures = graphs.signatures()
    with tempfile.TemporaryDirectory() as vocabularies:
        module = graphs.module(_vocabulary_files(task, Path(vocabularies)))
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        try:
            tf.saved_model.save(module, str(directory), signatures=signatures, options=options)
        except tf.errors.OpError as error:  # an error in TensorFlow's writing, such as a full disk
            raise OSError(error.message) from error
    if threads is not None and optimize != "xla":  # XLA compiles the loops itself
        path = directory / "saved_model.pb"
        saved_model = SavedModel.FromString(path.read_bytes())
        _keep_on_one_thread(saved_model)
        path.write_bytes(saved_model.SerializeToString(deterministic=True))
        path.with_name("fingerprint.pb").unlink(missing_ok=True)  # of the unchanged file


def _keep_on_one_thread(saved_model: SavedModel) -> None:
    """Select TensorFlow's single-threaded executor for innermost loops without conditions."""
    # A step is hundreds of small operations, which the default executor passes from thread to thread.
    for graph in saved_model.meta_graphs:
        functions = {each.signature.name: each for each in graph.graph_def.library.function}
        lowered = {
            name
            for name, function in functions.items()
            for node in function.node_def
            if "_lower_using_switch_merge" in node.attr
        }
        every_node = (node for function in functions.values() for node in function.node_def)
        for loop in [node for node in every_node if node.op.endswith("While")]:
            parts = [loop.attr[part].func for part in ("cond", "body")]
            for part in parts if lowered.isdisjoint(part.name for part in parts) else ():
                part.attr["_executor"].s = b"SINGLE_THREADED_EXECUTOR"
                _fuse_biases(functions[part.name])


def _fuse_biases(function: FunctionDef) -> None:
    """Fuse each matrix product with the addition of its bias."""
    # For one row, `MatMul` uses threads with any executor: 27 microseconds for 256 by 256 numbers; fused, 8.
    # Not in a plain export, where oneDNN multiplies: there it is slower.
    products = {f"{node.name}:product:0": node for node in function.node_def if node.op == "MatMul"}
    names = (name for node in function.node_def for name in node.input)
    uses = collections.Counter([*names, *function.ret.values()])
    new_names = {}
    for node in [each for each in function.node_def if each.op == "BiasAdd" and each.input[0] in products]:
        product, bias = node.input
        if uses[product] == 1 and not uses[f"^{node.name}"] and node.attr["T"].type == tf.float32:
            fused = products[product]
            fused.op = "_FusedMatMul"
            fused.input.append(bias)
            fused.attr["num_args"].i = 1
            fused.attr["fused_ops"].list.s.append(b"BiasAdd")
            new_names[f"{node.name}:output:0"] = product
            function.node_def.remove(node)
    for node in function.node_def:
        node.input[:] = [new_names.get(name, name) for name in node.input]
    for result, name in function.ret.items():
        function.ret[result] = new_names.get(name, name)


def _with_common_tokenizer(task: ModelTask) -> ModelTask:
    """Return the task with one tokenizer for source and target if both have the same vocabulary."""
    # An export stores the vocabulary of each tokenizer three times, for subwords hundreds of kilobytes.
    first: dict[str, Any] = {}
    changes = {}
    for name in task.tokenizer_names:
        tokenizer = getattr(task, name)
        same = first.setdefault(tokenizer.fingerprint(), tokenizer)
        if same is not tokenizer:
            changes[name] = same
    return task.with_changes(**changes) if changes else task


def _vocabulary_files(task: ModelTask, directory: Path) -> list[str]:
    """Write each vocabulary under a distinct name, since all assets share one directory."""
    sides: dict[Any, str] = {}
    for name in task.tokenizer_names:
        tokenizer = getattr(task, name)
        sides[tokenizer] = "" if tokenizer in sides else name.removesuffix("tokenizer")
    paths = []
    for tokenizer, side in sides.items():
        tokenizer.save(directory / f"{side}tokenizer")
        file = tokenizer.vocabulary_file
        saved = directory / f"{side}tokenizer" / file
        paths.append(str(saved.rename(directory / f"{side}{file}")))
    return paths


def _write_warmup_requests(
    directory: Path,
    name: str,
    task: ModelTask,
    optimize: str,
    columns: dict[str, np.ndarray],
    repeated: Sequence[int],
) -> list[int]:
    """Write warm-up requests for all signatures, single sources and one batch; return their row counts."""
    path, size = directory / _WARMUP_FILE, len(columns[task.reader.column])
    path.parent.mkdir(exist_ok=True)
    batches = [[row] for row in range(size)]
    if size > 1:
        batches.append([*range(size)])
    requests = [*itertools.product(_served_signatures(task, optimize), batches)]
    # All signatures share one compiled search, so one signature warms up each batch size and length.
    requests += [("serving_default", [row] * size) for row in repeated for size in WARM_BATCH_SIZES]
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, rows in requests:
            given = task.specification(signature).inputs.items()
            request = predict_pb2.PredictRequest(
                model_spec=model_pb2.ModelSpec(name=name, signature_name=signature),
                inputs={key: tf.make_tensor_proto(columns[key][rows], dtype) for key, (dtype, _) in given},
            )
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())
    return [len(rows) for _, rows in requests]


def _rows_by_length(task: ModelTask, sources: Sequence[Value]) -> list[int]:
    """Return the index of one source for each length to which a compiled search pads the sources."""
    lengths = _bucket_lengths(task.max_source_length)
    sizes = [task.token_ids([source]).shape[1] for source in sources]
    rows = {next(length for length in lengths if length >= size): row for row, size in enumerate(sizes)}
    return [*rows.values()]


def _write_models_config(path: Path, name: str) -> None:
    """Write a `ModelServerConfig`, unless there is one, which you may have edited."""
    if not path.exists():
        # Escape what a quoted protobuf string cannot contain.
        escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        write_file(path, _fill_template("models.config", name=escaped).encode())
