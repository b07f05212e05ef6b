"""Whether another engine answers as the translator does, before its file is written."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_transformer.decoding import Translator
from keras_transformer.decoding.answers import token_ids_of
from keras_transformer.errors import ExportError
from keras_transformer.export.comparison import close

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
    short, _ = token_ids_of(texts, translator.source_tokenizer, limit)
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
