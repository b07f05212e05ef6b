"""Greedy decoding as one file for another engine, written once the engine answers as the translator does."""

from collections.abc import Callable, Sequence
from pathlib import Path

from keras_transformer.decoding import Translator
from keras_transformer.decoding.text_batches import check_texts
from keras_transformer.export.engine_answers import EngineAnswer, Ids, check_engine
from keras_transformer.export.greedy_graph import GreedyGraph, greedy_translator
from keras_transformer.export.saved_model import HARD_TEXTS, MAX_EXAMPLES, check_backend
from keras_transformer.files import write_file

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
    path, texts = Path(path), [*check_texts(examples, "examples")[:MAX_EXAMPLES], *HARD_TEXTS]
    greedy = greedy_translator(translator, source_length, max_length)
    content, ask = convert(GreedyGraph(greedy, batch_size))
    check_engine(engine, ask, greedy, texts, batch_size)
    write_file(path, content)
    return path
