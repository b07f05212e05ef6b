"""A translator as a file for LiteRT, the engine of phones and small devices."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from keras_transformer.decoding import Translator
from keras_transformer.errors import ExportError
from keras_transformer.export.engine_answers import EngineAnswer, Ids
from keras_transformer.export.greedy_graph import GreedyGraph
from keras_transformer.export.single_file import write_single_file


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
