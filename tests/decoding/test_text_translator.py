"""The calls that a model in memory and an exported one share, over a fake one."""

import numpy as np
import pytest

from keras_transformer.decoding import Alignment, PairScore, TextTranslator, Translation
from keras_transformer.decoding.text_translator import BatchAnswers


class Echo(TextTranslator):
    """Answers with the text, then with the text in capitals."""

    _num_hypotheses = 2

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def _translate_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        self.sizes.append(len(texts))
        return BatchAnswers([Translation(text, -1.0) for text in texts])

    def _n_best_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        return BatchAnswers([[Translation(text, -1.0), Translation(text.upper(), -2.0)] for text in texts])

    def _score_batch(self, pairs: list[tuple[str, str]], places: list[int]) -> BatchAnswers:
        self.sizes.append(len(pairs))
        return BatchAnswers([PairScore(-float(len(source)), len(target)) for source, target in pairs])

    def _align_batch(self, texts: list[str], places: list[int]) -> BatchAnswers:
        return BatchAnswers([Alignment(text, -1.0, (), (), np.zeros((0, 0))) for text in texts])


TEXTS = ["bb", "a", "ccc"]


def test_every_call_takes_an_iterable_and_keeps_the_order() -> None:
    echo = Echo()
    assert echo.translate(iter(TEXTS), batch_size=2) == TEXTS
    assert [answer.text for answer in echo.translate_with_scores(iter(TEXTS))] == TEXTS
    assert [answers[1].text for answers in echo.n_best(iter(TEXTS), batch_size=2)] == ["BB", "A", "CCC"]
    assert [answer.text for answer in echo.align(iter(TEXTS), batch_size=1)] == TEXTS
    assert echo.sizes == [2, 1, 3]


def test_pairs_are_batched_by_their_longer_side() -> None:
    done: list[int] = []
    scores = Echo().score(iter(TEXTS), iter(["x", "yyyyy", "z"]), batch_size=2, progress=done.append)
    assert scores == [PairScore(-2.0, 1), PairScore(-1.0, 5), PairScore(-3.0, 1)]
    assert done == [2, 1]


def test_the_first_of_the_hypotheses_are_taken() -> None:
    assert [len(answers) for answers in Echo().n_best(TEXTS, num=1)] == [1, 1, 1]
    with pytest.raises(ValueError, match=r"between 1 and the 2 hypotheses .* Received: num=3\."):
        Echo().n_best(TEXTS, num=3)
    with pytest.raises(TypeError, match=r"`num` must be an integer or None\. Received: num=1\.5\."):
        Echo().n_best(TEXTS, 1.5)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(TypeError, match=r"Received: targets='abc'\."):
        Echo().score(["a"], "abc")
    with pytest.raises(TypeError, match=r"`texts` must be several strings.* Received: texts=None\."):
        Echo().translate(None)
    with pytest.raises(ValueError, match=r"Received: 2 targets, 1 sources\."):
        Echo().score(["a"], ["b", "c"])
