"""Export of a translator as one file for LiteRT or ONNX: greedy decoding with fixed sizes.

Converters cannot express the loop of the SavedModel, which grows its caches and lets sources leave the batch.
"""

import dataclasses
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from keras_transformer._arguments import check_choice, check_memory, check_positive, import_extra
from keras_transformer._files import as_path, write_file
from keras_transformer.decoding import GreedySearch, generate
from keras_transformer.errors import ExportError
from keras_transformer.export.saved_model import _check_exportable
from keras_transformer.export.verification import _compared_sources, _is_close
from keras_transformer.export.weights import _StoredWeights
from keras_transformer.tasks import Translator
from keras_transformer.types import FIXED_OPTIMIZATIONS, Value

_OPSET = 18  # version of the ONNX operations

_Ids: TypeAlias = npt.NDArray[np.int32]
# From inputs by name to token ids `(b, T)` and scores `(b,)`.
_Engine: TypeAlias = Callable[[dict[str, npt.NDArray[Any]]], tuple[_Ids, npt.NDArray[np.float32]]]


def export_litert(
    translator: Translator,
    path: str | Path,
    examples: Iterable[Value] = (),
    *,
    source_length: int | None = None,
    max_length: int | None = None,
    batch_size: int = 1,
    optimize: str = "float32",
) -> Path:
    """Export greedy decoding with fixed sizes as a verified `.tflite` file of built-in LiteRT operations.

    The signature `serving_default` maps `source_ids`, int32 `(b, s)`, to `token_ids`, int32 `(b, T)`, and
    `score`, float32 `(b,)`: the log-probability divided by the length penalty. Rows of ids have an end token
    and are padded with 0; convert texts with the tokenizers. For a model that reads frames, the inputs are
    unnormalized `features`, float32 `(b, s, w)`, and `padding_mask`, boolean `(b, s)`. Decoding stops when
    every row has its end token.

    Args:
        translator: A translator on the TensorFlow backend. Length penalty and constraints are those of its
            search.
        path: The file. An existing file is replaced.
        examples: Real sources. Outputs of the file and the translator are compared for the first 8, and for
            unusual sources such as empty ones.
        source_length: Source length `s`: the number of tokens, including the end token, or of frames.
            Defaults to the translator's `max_source_length`.
        max_length: Output length `T` in tokens, including the end token. Defaults to the translator's
            `max_target_length`.
        batch_size: Number of sources, `b`. Defaults to 1.
        optimize: `float32`, or `int8` to quantize the weight matrices with the engine's quantizer: about a
            third of the size, but up to half of the compared outputs may differ. Defaults to `float32`.

    Returns:
        The path.

    Raises:
        InputError: If the file cannot be written, or Keras runs on another backend.
        ExportError: If LiteRT lacks an operation of the model, or its results differ. Nothing is written.
        TypeError: If `batch_size` is not an integer.
        ValueError: If a length is below 2, `batch_size` is not positive, `optimize` is unknown, or the model
            is quantized.
    """
    check_choice(FIXED_OPTIMIZATIONS, optimize=optimize)
    if getattr(getattr(translator, "model", None), "is_quantized", False):
        raise ValueError(
            'LiteRT quantizes a model of floats itself, with `optimize="int8"`. Received: a quantized model.'
        )
    path, graph = as_path(path), _GreedyGraph(translator, source_length, max_length, batch_size)
    function = graph.function.get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], graph.module)
    converter.optimizations = [tf.lite.Optimize.DEFAULT] if optimize == "int8" else []
    try:
        content = bytes(converter.convert())
    except ConverterError as error:
        raise _missing_operation("LiteRT", error) from error
    graph.check("LiteRT", _litert_engine(content), examples, is_exact=optimize != "int8")
    write_file(path, content)
    return path


def export_onnx(
    translator: Translator,
    path: str | Path,
    examples: Iterable[Value] = (),
    *,
    source_length: int | None = None,
    max_length: int | None = None,
    batch_size: int = 1,
    optimize: str = "float32",
) -> Path:
    """Export greedy decoding as a verified `.onnx` file, with standard ONNX operations only.

    The arguments, inputs and outputs are those of `export_litert`. Exporting needs the packages of the extra
    `onnx`. To run the file, you need only an ONNX engine.

    Returns:
        The path.

    Raises:
        InputError: If a package is not installed; see also `export_litert`.
        ExportError: As for `export_litert`.
        TypeError: As for `export_litert`.
        ValueError: As for `export_litert`.
    """
    converter, runtime = (import_extra(name, "An ONNX model", "onnx") for name in ("tf2onnx", "onnxruntime"))
    check_choice(FIXED_OPTIMIZATIONS, optimize=optimize)
    path, graph = as_path(path), _GreedyGraph(translator, source_length, max_length, batch_size)
    function = graph.function
    try:
        model, _ = converter.convert.from_function(
            function, function.input_signature, opset=_OPSET, custom_op_handlers={"Erfc": (_write_erfc, [])}
        )
    except tf.errors.OpError as error:
        raise _missing_operation("ONNX", error) from error
    # TensorFlow sorts them alphabetically, and some clients access outputs by index.
    model.graph.output.sort(key=lambda output: ("token_ids", "score").index(output.name))
    content = bytes(model.SerializeToString())
    engine = _onnx_engine(runtime, content)
    if optimize == "int8":
        content = _rounded_onnx(content)
        engine = _onnx_engine(runtime, content)
    graph.check("The ONNX runtime", engine, examples, is_exact=optimize != "int8")
    write_file(path, content)
    return path


class _GreedyGraph:
    """Greedy decoding as a single loop with a full-length cache, so that no size changes."""

    def __init__(
        self, translator: Translator, source_length: int | None, max_length: int | None, batch_size: int
    ) -> None:
        _check_exportable(translator, Translator)
        if translator.reader.column not in ("text", "features"):
            raise ValueError(
                "`translator` must read texts or frames: other sources are exported as a SavedModel only. "
                f"Received: a translator that reads {translator.reader.column!r}."
            )
        check_positive(batch_size=batch_size)
        search = translator.search
        self.batch_size = batch_size
        self.translator = translator.with_changes(
            search=GreedySearch(
                **{field.name: getattr(search, field.name) for field in dataclasses.fields(GreedySearch)}
            ),
            max_source_length=translator.max_source_length if source_length is None else source_length,
            max_target_length=translator.max_target_length if max_length is None else max_length,
        )
        # The converter turns the variables of a module into constants.
        self.module = tf.Module(name="greedy")
        self.module.model_variables = _StoredWeights(translator.model).variables
        shape = (batch_size, self.translator.max_source_length)
        # With fixed sizes, an engine computes the full matrix of attention scores.
        check_memory(4 * shape[0] * shape[1] ** 2, batch_size=batch_size, source_length=shape[1])
        # The engines do not read strings, so texts are passed as token ids.
        self._reads_ids = translator.reader.column == "text"
        names = ("source_ids",) if self._reads_ids else tuple(translator.reader.columns)
        self.specs = [
            tf.TensorSpec((*shape, *others[2:]), dtype, name=name)
            for name, (others, dtype) in zip(names, translator.reader.input_specs, strict=True)
        ]
        self.function = tf.function(self._decode, input_signature=self.specs, autograph=False)

    def _decode(self, *given: tf.Tensor) -> dict[str, tf.Tensor]:
        translator, max_length = self.translator, self.translator.max_target_length
        if not self._reads_ids:
            given, _ = translator.reader.read(given, translator.max_source_length)
        source, *mask = given
        token_ids, scores = generate(
            translator.model,
            source,
            translator.search,
            max_length,
            padding_mask=mask[0] if mask else None,
            initial_cache_length=max_length,
        )
        return {"token_ids": token_ids[:, 0], "score": scores[:, 0]}

    def check(self, engine: str, ask: _Engine, examples: Iterable[Value], *, is_exact: bool) -> None:
        """Raise ExportError unless an engine returns the translator's tokens and scores.

        If not `is_exact`, as for int8, at least half of the texts must have the same tokens.
        """
        texts, source = _compared_sources(self.translator, examples), self.translator.reader
        batch = source.batch(texts)
        inputs, _ = source.read(batch, self.translator.max_source_length)
        found = self.translator.functions.tokens.find(inputs, range(len(texts)))
        token_ids, scores = (np.array(part)[:, 0] for part in found)
        given = {
            spec.name: _fit_length(np.asarray(column), self.translator.max_source_length)
            for spec, column in zip(self.specs, inputs if self._reads_ids else batch, strict=True)
        }
        differing: dict[int, str] = {}
        for first in range(0, len(texts), self.batch_size):
            rows = np.arange(first, first + self.batch_size) % len(texts)
            received_rows = ask({name: column[rows] for name, column in given.items()})
            for row, received_ids, received_score in zip(rows, *received_rows, strict=True):
                is_same = np.array_equal(received_ids, token_ids[row])
                if not (is_same and (_is_close(received_score, scores[row]) or not is_exact)):
                    wanted = _describe_output(token_ids[row], scores[row])
                    received = _describe_output(received_ids, received_score)
                    differing[int(row)] = f"{wanted} for {texts[row]!r:.200}. Received: {received}"
        if len(differing) > (0 if is_exact else len(texts) // 2):
            others = "" if is_exact else f", one of {len(differing)} texts of {len(texts)} that differ"
            raise ExportError(f"{engine} must return {next(iter(differing.values()))}{others}.")


def _fit_length(column: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    """Pad or truncate sources `(b, s, ...)` to a length."""
    # The engine gets more padding than the translator, which must make no difference.
    padding = [(0, 0), (0, max(0, length - column.shape[1])), *[(0, 0)] * (column.ndim - 2)]
    return np.pad(column[:, :length], padding)


def _describe_output(token_ids: _Ids, score: float) -> str:
    return f"the token ids {np.trim_zeros(token_ids, 'b').tolist()} and the score {score:.4f}"


def _litert_engine(content: bytes) -> _Engine:
    with warnings.catch_warnings():
        # TensorFlow announces that its interpreter will move to another package.
        warnings.simplefilter("ignore", UserWarning)
        interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    run = interpreter.get_signature_runner("serving_default")

    def ask(given: dict[str, npt.NDArray[Any]]) -> tuple[_Ids, npt.NDArray[np.float32]]:
        outputs = run(**given)
        return outputs["token_ids"], outputs["score"]

    return ask


def _onnx_engine(runtime: ModuleType, content: bytes) -> _Engine:
    errors = runtime.capi.onnxruntime_pybind11_state
    try:
        session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    # Raised if the converter has left a TensorFlow operation unconverted.
    except (errors.Fail, errors.InvalidGraph, errors.NotImplemented, errors.InvalidArgument) as error:
        raise _missing_operation("ONNX", error) from error
    return lambda given: tuple(session.run(None, given))


def _write_erfc(graph: Any, node: Any, _name: str, _arguments: list[Any]) -> None:
    """Convert TensorFlow's `Erfc`, which GELU uses, to ONNX: 1 - erf(x)."""
    shape, dtype = graph.get_shape(node.output[0]), graph.get_dtype(node.output[0])
    [value, output] = [node.input[0], node.output[0]]
    graph.remove_node(node.name)
    one = graph.make_const(f"{node.name}_one", np.ones((), "float32")).output[0]
    erf = graph.make_node("Erf", [value]).output[0]
    graph.make_node("Sub", [one, erf], outputs=[output], shapes=[shape], dtypes=[dtype])


def _rounded_onnx(content: bytes) -> bytes:
    """Round the matrices of an ONNX model to int8, with a scale for each column."""
    import onnx
    from onnxruntime.quantization import QuantType, quant_pre_process, quantize_dynamic

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.onnx")
        path.write_bytes(content)
        # The quantizer handles only constants; this computes the joined and reshaped matrices.
        quant_pre_process(path, path, skip_symbolic_shape=True, skip_onnx_shape=True)
        model = onnx.load(path)
        for loop in (node for node in model.graph.node if node.op_type == "Loop"):
            _read_constants(loop, {constant.name for constant in model.graph.initializer})
        options = {"weight_type": QuantType.QInt8, "extra_options": {"EnableSubgraph": True}}
        # 7 bits: CPUs without VNNI add two 8-bit products in 16 bits, which overflows.
        quantize_dynamic(model, path, per_channel=True, reduce_range=True, **options)
        return path.read_bytes()


def _read_constants(loop: Any, constants: set[str]) -> None:
    """Let a loop body read constants directly, and use a `MatMul` that the quantizer supports."""
    from onnx.helper import make_node

    # tf2onnx passes constants as loop states. A body has two inputs before the states, and one output.
    body = loop.attribute[0].g
    sources = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity"}
    states = [state.name for state in body.input]
    ends = [None, *(sources.get(end.name, end.name) for end in body.output)]
    moved = [at for at in range(2, len(states)) if ends[at] == states[at] and loop.input[at] in constants]
    names = {states[at]: loop.input[at] for at in moved}
    for node in _all_nodes(body):
        node.input[:] = [names.get(name, name) for name in node.input]
    nodes = []
    for node in body.node:
        if node.op_type != "Gemm" or node.attribute:
            nodes.append(node)
            continue
        *factors, bias = node.input
        product = f"{node.output[0]}_product"
        nodes += [make_node("MatMul", factors, [product]), make_node("Add", [product, bias], node.output)]
    nodes = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del body.node[:]
    body.node.extend(nodes)
    for at in reversed(moved):
        del loop.input[at], loop.output[at - 2], body.input[at], body.output[at - 1]


def _all_nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _all_nodes(attribute.g)


def _missing_operation(engine: str, error: Exception) -> ExportError:
    cause = str(error).split("\n", maxsplit=1)[0]
    return ExportError(f"{engine} must have every operation of the model. Received: {cause}")
