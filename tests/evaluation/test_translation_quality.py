import logging

import pytest
from sacrebleu.metrics import BLEU, CHRF

from keras_transformer.evaluation.translation_quality import TOKENIZATIONS, bleu, chrf

ANSWERS = ["the cat sat on the mat .", "A dog runs through the snow ."]
RIGHT = ["the cat is on the mat .", "a dog runs through deep snow ."]


def test_bleu_is_what_sacrebleu_computes() -> None:
    score = bleu(ANSWERS, RIGHT, tokenize="none", lowercase=True)
    expected = BLEU(tokenize="none", lowercase=True).corpus_score(ANSWERS, [RIGHT])
    assert score.value == expected.score
    assert 0 < score.value < 100
    assert score.signature.startswith("nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:")
    assert score.details == str(expected).split(" ", 3)[3]
    assert score.details.startswith("85.7/66.7/40.0/25.0 (BP = 1.000")


def test_chrf_is_what_sacrebleu_computes() -> None:
    score = chrf(ANSWERS, RIGHT)
    assert score.value == CHRF().corpus_score(ANSWERS, [RIGHT]).score
    assert (score.name, score.details) == ("chrF2", "")
    assert "nc:6|nw:0" in score.signature
    plus = chrf(ANSWERS, RIGHT, word_order=2)
    assert plus.name == "chrF2++"
    assert "nw:2" in plus.signature


def test_right_answers_have_the_best_score() -> None:
    assert bleu(RIGHT, RIGHT).value == pytest.approx(100)
    assert chrf(RIGHT, RIGHT).value == pytest.approx(100)
    assert bleu(["", ""], RIGHT).value == 0


def test_case_counts_unless_it_is_ignored() -> None:
    capitals = [text.upper() for text in RIGHT]
    assert bleu(capitals, RIGHT).value < 10
    assert bleu(capitals, RIGHT, lowercase=True).value == pytest.approx(100)
    assert chrf(capitals, RIGHT, lowercase=True).value == pytest.approx(100)


def test_tokenization_matters() -> None:
    glued = [text.replace(" .", ".") for text in RIGHT]
    assert bleu(glued, RIGHT, tokenize="13a").value == pytest.approx(100)
    assert bleu(glued, RIGHT, tokenize="none").value < 90


def test_the_number_of_references_may_vary() -> None:
    several = [[RIGHT[0], ANSWERS[0]], RIGHT[1]]
    score = bleu(ANSWERS, several, tokenize="none")
    streams = [[RIGHT[0], RIGHT[1]], [ANSWERS[0], None]]
    assert score.value == BLEU(tokenize="none").corpus_score(ANSWERS, streams).score
    assert score.value > bleu(ANSWERS, RIGHT, tokenize="none").value
    assert score.signature.startswith("nrefs:var|")


def test_tokenized_text_is_not_warned_about_when_it_is_meant(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        bleu(RIGHT * 60, RIGHT * 60, tokenize="none")
        assert not caplog.records
        bleu(RIGHT * 60, RIGHT * 60)
        assert caplog.records


def test_wrong_settings_are_named() -> None:
    assert {"13a", "none", "intl", "char", "zh"} <= set(TOKENIZATIONS)
    with pytest.raises(ValueError, match=r"`tokenize` must be one of .*13a.* Received: tokenize='14a'"):
        bleu(ANSWERS, RIGHT, tokenize="14a")
    with pytest.raises(ValueError, match="Received: word_order=-1"):
        chrf(ANSWERS, RIGHT, word_order=-1)
    with pytest.raises(ValueError, match="Received: 1 references for 2 hypotheses"):
        bleu(ANSWERS, RIGHT[:1])
