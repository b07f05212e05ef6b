"""A translator as a file in ONNX, the format that many engines read."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import Translator
from keras_transformer.errors import ExportError, InputError
from keras_transformer.export.engine_answers import EngineAnswer, Ids
from keras_transformer.export.greedy_graph import GreedyGraph
from keras_transformer.export.single_file import write_single_file

OPSET = 18
"""The version of the ONNX operations that are written."""


def export_onnx(
    translator: Translator,
    path: str | Path,
    examples: Sequence[str] = (),
    *,
    source_length: int | None = None,
    max_length: int | None = None,
    batch_size: int = 1,
) -> Path:
    """Writes greedy decoding as an `.onnx` file of ONNX's own operations, and checks it before.

    Every size is fixed: from `source_ids`, int32 `(b, s)`, each row ended with the end token and
    padded with 0, to `token_ids`, int32 `(b, T)`, ended and padded likewise, and `score`, float32
    `(b,)`. It needs the packages of the extra `onnx`; the file itself needs none of them.

    Args:
        translator: on the TensorFlow backend. Of its search, the length penalty and the constraints count.
        path: the file; an existing one is replaced.
        examples: real sources, of which the first 8 are used for the comparison.
        source_length: the tokens of a source, the end token included, `s`; the translator's limit if None.
        max_length: the tokens of an answer, likewise, `T`.
        batch_size: the number of sources, `b`.

    Returns:
        The path.

    Raises:
        InputError: a package is not installed, the file cannot be written, or Keras runs on another backend.
        ExportError: there is no ONNX operation for a part of the model, or the ONNX runtime does
            not answer as the model does; nothing is written.
        TypeError: a batch size that is not an integer.
        ValueError: a length below 2, a batch size that is not above zero.
    """
    tf2onnx, runtime = (_package(name) for name in ("tf2onnx", "onnxruntime"))

    def convert(graph: GreedyGraph) -> tuple[bytes, Callable[[Ids], EngineAnswer]]:
        content = _convert(tf2onnx, graph)
        session = _load(runtime, content)
        return content, lambda ids: EngineAnswer(*session.run(EngineAnswer._fields, {"source_ids": ids}))

    sizes = {"source_length": source_length, "max_length": max_length}
    return write_single_file(
        "The ONNX runtime", convert, translator, path, examples, **sizes, batch_size=batch_size
    )


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f'An ONNX model needs the package {name}; in the clone: pip install ".[onnx]".'
        ) from error


def _convert(tf2onnx: Any, graph: GreedyGraph) -> bytes:
    function = graph.function()
    try:
        model, _ = tf2onnx.convert.from_function(function, function.input_signature, opset=OPSET)
    except tf.errors.OpError as error:
        raise _missing_operation(error) from error
    return bytes(model.SerializeToString())


def _load(runtime: Any, content: bytes) -> Any:
    """Load a model, which fails where an operation was left as TensorFlow has it."""
    errors = runtime.capi.onnxruntime_pybind11_state
    try:
        return runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except (errors.Fail, errors.InvalidGraph, errors.NotImplemented, errors.InvalidArgument) as error:
        raise _missing_operation(error) from error


def _missing_operation(error: Exception) -> ExportError:
    cause = str(error).split("\n", maxsplit=1)[0]
    return ExportError(f"ONNX must have every operation of the model. Received: {cause}")
