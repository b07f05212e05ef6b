"""Whether two answers are the same, up to the last digits of a score."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer.decoding import Alignment, PairScore, Translation

# Scores may differ in the last digits: another batch size, another order of additions.
SCORE_TOLERANCE = 1e-3


def same_answer(answer: Any, wanted: Any) -> bool:
    """Compare two answers.

    Args:
        answer: a `Translation`, a list of them, an `Alignment` or a `PairScore`.
        wanted: of the same kind.

    Returns:
        Whether texts and tokens are equal, and numbers close. Hypotheses after the first may be
        exchanged where their scores are as close as that.
    """
    if isinstance(wanted, list):
        return _same_hypotheses(answer, wanted)
    if not close(answer.score, wanted.score):
        return False
    if isinstance(wanted, PairScore):
        return bool(answer.num_tokens == wanted.num_tokens)
    return bool(answer.text == wanted.text) and (
        not isinstance(wanted, Alignment) or _same_attention(answer, wanted)
    )


def close(score: float, wanted: float) -> bool:
    """Compare two scores.

    Args:
        score: a log-probability, perhaps divided.
        wanted: another.

    Returns:
        Whether they are equal but for rounding.
    """
    return math.isclose(score, wanted, rel_tol=1e-4, abs_tol=SCORE_TOLERANCE)


def _same_hypotheses(answers: Sequence[Translation], wanted: Sequence[Translation]) -> bool:
    if len(answers) != len(wanted) or not all(
        close(a.score, w.score) for a, w in zip(answers, wanted, strict=True)
    ):
        return False
    if answers[0].text != wanted[0].text:
        return False
    return all(a.text == w.text or _is_tied(w, wanted) for a, w in zip(answers, wanted, strict=True))


def _is_tied(hypothesis: Translation, hypotheses: Sequence[Translation]) -> bool:
    """Say whether another one could stand in its place: the last may also be tied with one not kept."""
    others = [other for other in hypotheses if other is not hypothesis]
    return hypothesis is hypotheses[-1] or any(close(hypothesis.score, other.score) for other in others)


def _same_attention(answer: Alignment, wanted: Alignment) -> bool:
    tokens = (answer.source_tokens, answer.output_tokens) == (wanted.source_tokens, wanted.output_tokens)
    return tokens and bool(np.allclose(answer.attention, wanted.attention, atol=SCORE_TOLERANCE))
