"""Between texts and arrays: what a translator hands to its model, and what it makes of the result."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer.decoding.contract import SpecialIds
from keras_transformer.decoding.scores import LOWEST_SCORE
from keras_transformer.decoding.translation import Alignment, Translation


def token_ids_of(texts: Sequence[str], tokenizer: Any, max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokenize texts, end each row and pad it.

    Args:
        texts: of any lengths.
        tokenizer: of their language.
        max_length: most tokens of a row, the end token included; what follows is cut off.

    Returns:
        int32 `(b, s)`, and bool `(b,)`, which rows were cut.
    """
    # Imported here: tokenizers need TensorFlow, the rest of decoding does not.
    from keras_transformer.text.source_ids import source_token_ids

    token_ids = source_token_ids(utf8(texts), tokenizer, max_length + 1).numpy()
    if token_ids.shape[1] <= max_length:
        return token_ids, np.zeros(len(token_ids), "bool")
    is_cut = token_ids[:, max_length] != SpecialIds().pad
    token_ids[is_cut, max_length - 1] = SpecialIds().end
    return token_ids[:, :max_length], is_cut


def utf8(texts: Sequence[str]) -> list[bytes]:
    """Encode texts for a tokenizer.

    Args:
        texts: strings.

    Returns:
        Bytes. A lone surrogate is no UTF-8, which a tokenizer takes for an unknown token.
    """
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def started(token_ids: np.ndarray) -> np.ndarray:
    """Put the start token before targets.

    Args:
        token_ids: int32 `(b, t)`.

    Returns:
        int32 `(b, t + 1)`.
    """
    return np.pad(token_ids, [(0, 0), (1, 0)], constant_values=SpecialIds().start)


def make_hypotheses(source: str, texts: np.ndarray, scores: np.ndarray) -> list[Translation]:
    """Name the hypotheses of one source.

    Args:
        source: its text.
        texts: the answers as bytes, `(n,)`, best first.
        scores: float32 `(n,)`.

    Returns:
        The answers; those are left out that stand for no sequence, because there are fewer than `n`.
    """
    if not source:
        return [Translation("", 0.0)]
    is_sequence = [rank == 0 or score > LOWEST_SCORE / 2 for rank, score in enumerate(scores)]
    return [
        Translation(text.decode("utf-8"), float(score))
        for text, score, is_one in zip(texts, scores, is_sequence, strict=True)
        if is_one
    ]


def make_alignment(
    source: str,
    output: bytes,
    score: float,
    source_tokens: np.ndarray,
    output_tokens: np.ndarray,
    attention: np.ndarray,
) -> Alignment:
    """Cut the alignment of one source to its real lengths.

    Args:
        source: its text.
        output: the answer.
        score: of the answer.
        source_tokens: bytes `(s,)`, empty where there is padding.
        output_tokens: bytes `(t,)`, likewise.
        attention: float32 `(t, s)`.

    Returns:
        The alignment, with nothing in it if the source is empty.
    """
    if not source:
        return Alignment("", 0.0, (), (), np.zeros((0, 0), "float32"))
    columns, rows = _decoded(source_tokens), _decoded(output_tokens)
    return Alignment(
        output.decode("utf-8"), float(score), columns, rows, attention[: len(rows), : len(columns)]
    )


def _decoded(tokens: np.ndarray) -> tuple[str, ...]:
    return tuple(token.decode("utf-8") for token in tokens if token)
