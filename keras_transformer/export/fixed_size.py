"""A translator as a file in ONNX, the format that many engines read."""

import importlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from keras_transformer.arguments import as_strings, check_positive
from keras_transformer.backend import without_doubles
from keras_transformer.decoding import GreedySearch, Translator, generate
from keras_transformer.errors import ExportError, InputError
from keras_transformer.export.saved_model import HARD_TEXTS, MAX_EXAMPLES, check_backend
from keras_transformer.export.stored_weights import StoredWeights
from keras_transformer.export.verification import close
from keras_transformer.files import write_file

Ids = npt.NDArray[np.int32]


class EngineAnswer(NamedTuple):
    """What an engine gives for a batch."""

    token_ids: Ids
    """int32 `(b, T)`, ended and padded."""
    score: npt.NDArray[np.float32]
    """float32 `(b,)`."""


def check_engine(
    engine: str,
    ask: Callable[[Ids], EngineAnswer],
    translator: Translator,
    texts: Sequence[str],
    batch_size: int = 1,
) -> None:
    """Asks an engine for every text, and compares with the translator.

    Args:
        engine: its name.
        ask: runs it, for int32 `(b, s)`, where `s` is the translator's most tokens of a source.
        translator: with the search that the engine runs.
        texts: sources, at least one.
        batch_size: the number of sources that the engine takes, `b`.

    Raises:
        ExportError: a token or a score of an answer differs.
    """
    limit = translator.max_source_length
    short = translator.token_ids(texts)
    # The engine reads more padding than the translator does, which must not matter.
    source_ids = np.pad(short, [(0, 0), (0, limit - short.shape[1])])  # (texts, s)
    wanted = [np.array(part)[:, 0] for part in translator.generate(short)]
    for first in range(0, len(texts), batch_size):
        rows = np.arange(first, first + batch_size) % len(texts)
        answers = zip(*ask(source_ids[rows]), strict=True)
        for row, answer in zip(rows, answers, strict=True):
            _check_answer(engine, texts[int(row)], answer, [part[row] for part in wanted])


def _check_answer(engine: str, text: str, received: Sequence[Any], wanted: Sequence[Any]) -> None:
    if np.array_equal(received[0], wanted[0]) and close(received[1], wanted[1]):
        return
    raise ExportError(
        f"{engine} must answer {text!r} with {_described(*wanted)}. Received: {_described(*received)}."
    )


def _described(token_ids: Ids, score: float) -> str:
    return f"the token ids {np.trim_zeros(token_ids, 'b').tolist()} and the score {score:.4f}"


def greedy_translator(
    translator: Translator, source_length: int | None = None, max_length: int | None = None
) -> Translator:
    """Make a translator that answers as a graph of fixed sizes shall answer.

    Args:
        translator: whose model and tokenizers are shared.
        source_length: most tokens of a source, the end token included; the translator's limit if None.
        max_length: most tokens of an answer, likewise.

    Returns:
        A translator with greedy search, under the length penalty and the constraints of the other's search.

    Raises:
        ValueError: a length below 2.
    """
    search = translator.search
    options = {name: getattr(search, name) for name in ("length_penalty", "constraints", "special_ids")}
    return Translator(
        translator.model,
        translator.source_tokenizer,
        translator.target_tokenizer,
        search=GreedySearch(**options),
        max_source_length=translator.max_source_length if source_length is None else source_length,
        max_target_length=translator.max_target_length if max_length is None else max_length,
    )


class GreedyGraph(tf.Module):
    """A single loop with room for the whole answer: no size changes while it runs.

    Args:
        translator: from `greedy_translator`, on the TensorFlow backend.
        batch_size: the number of sources, `b`.

    Raises:
        TypeError: a batch size that is not an integer.
        ValueError: a batch size that is not above zero, another search, or variables that are not those
            of TensorFlow.
    """

    def __init__(self, translator: Translator, batch_size: int = 1) -> None:
        super().__init__(name="greedy")
        check_positive(batch_size=batch_size)
        if not isinstance(translator.search, GreedySearch):
            raise ValueError(
                f"`translator` must have greedy search. Received: {type(translator.search).__name__}."
            )
        self._translator, self._search = translator, translator.search
        self.batch_size = batch_size
        self.model_variables = StoredWeights(translator.model).variables

    def answer(self, source_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Answers sources.

        Args:
            source_ids: int32 `(b, s)`, each row ended and padded.

        Returns:
            `token_ids`, int32 `(b, T)`, ended and padded; and `score`, float32 `(b,)`: the
            log-probability, divided by the search's length penalty.
        """
        model, max_length = self._translator.model, self._translator.max_target_length
        with without_doubles():
            token_ids, scores = generate(model, source_ids, self._search, max_length, room=max_length)
        return {"token_ids": token_ids[:, 0], "score": scores[:, 0]}

    def function(self) -> Any:
        """Make the graph, not yet traced.

        Returns:
            `answer` as a `tf.function` for sources as long as the translator's limit.
        """
        sizes = self.batch_size, self._translator.max_source_length
        signature = [tf.TensorSpec(sizes, tf.int32, name="source_ids")]
        return tf.function(self.answer, input_signature=signature, autograph=False)


Convert = Callable[[GreedyGraph], tuple[bytes, Callable[[Ids], EngineAnswer]]]


def write_single_file(
    engine: str,
    convert: Convert,
    translator: Translator,
    path: str | Path,
    examples: Sequence[str],
    *,
    source_length: int | None,
    max_length: int | None,
    batch_size: int,
) -> Path:
    """Converts, compares, and only then writes.

    Args:
        engine: its name, for messages.
        convert: gives the bytes of the file for a graph, and what asks the engine that has loaded them.
        translator: see `export_litert`, as for all that follows.
        path: the file; an existing one is replaced.
        examples: real sources, of which the first 8 are compared, besides what users send by mistake.
        source_length: the tokens of a source, `s`, or None.
        max_length: the tokens of an answer, `T`, or None.
        batch_size: the number of sources, `b`.

    Returns:
        The path.

    Raises:
        InputError: the file cannot be written, or Keras runs on another backend.
        ExportError: the engine does not answer as the model does; nothing is written.
    """
    check_backend()
    path, texts = Path(path), [*as_strings(examples=examples)[:MAX_EXAMPLES], *HARD_TEXTS]
    greedy = greedy_translator(translator, source_length, max_length)
    content, ask = convert(GreedyGraph(greedy, batch_size))
    check_engine(engine, ask, greedy, texts, batch_size)
    write_file(path, content)
    return path


def export_litert(
    translator: Translator,
    path: str | Path,
    examples: Sequence[str] = (),
    *,
    source_length: int | None = None,
    max_length: int | None = None,
    batch_size: int = 1,
) -> Path:
    """Writes greedy decoding as a `.tflite` file of LiteRT's own operations, and checks it before.

    Every size is fixed. The file has the signature `serving_default`: from `source_ids`, int32 `(b, s)`, each
    row ended with the end token and padded with 0, to `token_ids`, int32 `(b, T)`, ended and
    padded likewise, and `score`, float32 `(b,)`. Texts become ids outside of it, with the tokenizers.
    The time follows what is generated: the loop ends when every row has its end token.

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
        InputError: the file cannot be written, or Keras runs on another backend.
        ExportError: LiteRT has no operation for a part of the model, or does not answer as the
            model does; nothing is written.
        TypeError: a batch size that is not an integer.
        ValueError: a length below 2, a batch size that is not above zero.
    """

    def convert(graph: GreedyGraph) -> tuple[bytes, Callable[[Ids], EngineAnswer]]:
        content = convert_to_litert(graph)
        return content, LiteRTModel(content).answer

    sizes = {"source_length": source_length, "max_length": max_length}
    return write_single_file("LiteRT", convert, translator, path, examples, **sizes, batch_size=batch_size)


def convert_to_litert(graph: GreedyGraph) -> bytes:
    """Converts a graph, with the operations that every LiteRT runtime has.

    Args:
        graph: to be converted.

    Returns:
        The bytes of a `.tflite` file.

    Raises:
        ExportError: there is no such operation for a part of it.
    """
    # With the graph itself, which holds the variables: otherwise they would not become constants.
    function = graph.function().get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], graph)
    try:
        return bytes(converter.convert())
    except ConverterError as error:
        cause = str(error).split("\n", maxsplit=1)[0]
        raise ExportError(f"LiteRT must have every operation of the model. Received: {cause}") from error


class LiteRTModel:
    """A `.tflite` file, asked from Python.

    Args:
        content: the bytes of the file.
    """

    def __init__(self, content: bytes) -> None:
        with warnings.catch_warnings():
            # TensorFlow announces that its interpreter will move to a package of its own.
            warnings.simplefilter("ignore", UserWarning)
            self._interpreter = tf.lite.Interpreter(model_content=content)
        self._interpreter.allocate_tensors()
        self._run = self._interpreter.get_signature_runner("serving_default")

    def answer(self, source_ids: Ids) -> EngineAnswer:
        """Answers sources.

        Args:
            source_ids: int32 `(b, s)`, each row ended and padded.

        Returns:
            The answers.
        """
        return EngineAnswer(**self._run(source_ids=source_ids))


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
