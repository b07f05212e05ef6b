"""When two answers count as the same."""

import numpy as np
import pytest

from keras_transformer.decoding import Alignment, PairScore, Translation
from keras_transformer.export.verification import close, same_answer


def alignment(**changes: object) -> Alignment:
    parts = {"text": "a", "score": -1.0, "source_tokens": ("b",), "output_tokens": ("a",)}
    return Alignment(**{**parts, "attention": np.ones((1, 1), "float32"), **changes})


@pytest.mark.parametrize(
    ("answer", "same"),
    [(Translation("a", -1.0005), True), (Translation("a", -1.01), False), (Translation("b", -1.0), False)],
)
def test_translations(answer: Translation, same: bool) -> None:
    assert same_answer(answer, Translation("a", -1.0)) is same


def test_large_scores_may_differ_by_more() -> None:
    assert close(-1000.05, -1000.0)
    assert not close(-1000.2, -1000.0)
    assert not close(float("nan"), -1.0)


def test_pairs() -> None:
    assert same_answer(PairScore(-1.0, 3), PairScore(-1.0, 3))
    assert not same_answer(PairScore(-1.0, 2), PairScore(-1.0, 3))


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "x"},
        {"score": -2.0},
        {"source_tokens": ("x",)},
        {"output_tokens": ("x",)},
        {"attention": np.zeros((1, 1), "float32")},
    ],
)
def test_alignments_differ_in_any_part(changes: dict) -> None:
    assert same_answer(alignment(), alignment())
    assert not same_answer(alignment(**changes), alignment())


def test_hypotheses_may_be_exchanged_only_where_they_are_tied() -> None:
    first, second, tied, last = (
        Translation(text, score) for text, score in (("a", -1.0), ("b", -2.0), ("c", -2.0), ("d", -3.0))
    )
    wanted = [first, second, tied, last]
    assert same_answer([first, tied, second, last], wanted)
    assert same_answer([first, second, tied, Translation("x", -3.0)], wanted)
    assert not same_answer([first, Translation("x", -1.5), tied, last], wanted)
    assert not same_answer([Translation("x", -1.0), second, tied, last], wanted)
    assert not same_answer(wanted[:3], wanted)
