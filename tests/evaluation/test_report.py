"""BLEU and chrF as sacreBLEU has them, and the table of several measures."""

import json
import logging
from collections.abc import Sequence

import pytest
from sacrebleu.metrics import BLEU, CHRF

from keras_transformer.evaluation import evaluate
from keras_transformer.evaluation.report import METRICS, Score

ANSWERS = ["the cat sat on the mat .", "A dog runs through the snow ."]
RIGHT = ["the cat is on the mat .", "a dog runs through deep snow ."]
FEW, FEW_RIGHT = (
    ["the cat sat on the mat .", "a dog runs"],
    [["the cat sat on a mat .", "a cat"], "a dog runs"],
)


def bleu(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]], **options: object) -> Score:
    return evaluate(hypotheses, references, ["bleu"], **options).scores["bleu"]


def chrf(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]], **options: object) -> Score:
    return evaluate(hypotheses, references, ["chrf"], **options).scores["chrf"]


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


def test_right_answers_have_the_best_score() -> None:
    assert bleu(RIGHT, RIGHT).value == pytest.approx(100)
    assert chrf(RIGHT, RIGHT).value == pytest.approx(100)
    assert bleu(["", ""], RIGHT).value == 0


@pytest.mark.parametrize(
    ("answers", "references", "fault"),
    [
        (["", " "], RIGHT, "All 2 outputs are empty. Try more epochs"),
        (["a", "b"], RIGHT, "All 2 outputs are wrong. Try more epochs"),
        (["1", "2"], ["3", "4"], "All 2 outputs are wrong. Try more epochs"),
        (["", "4"], ["3", "4"], ""),
        (ANSWERS, RIGHT, ""),
    ],
)
def test_a_model_that_has_learned_nothing_is_told(
    answers: list[str], references: list[str], fault: str
) -> None:
    report = evaluate(answers, references)
    assert report.warning.startswith(fault)
    assert bool(report.warning) == bool(fault)
    assert report.to_dict()["warning"] == report.warning
    assert (", 2 of them empty" in str(report)) == (report.num_empty == 2)


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


def test_an_unknown_tokenization_is_named() -> None:
    with pytest.raises(ValueError, match=r"`tokenize` must be one of .* Received: tokenize='14a'") as caught:
        bleu(ANSWERS, RIGHT, tokenize="14a")
    for name in ("13a", "none", "intl", "char", "zh"):
        assert repr(name) in str(caught.value)


def test_every_metric_is_measured() -> None:
    report = evaluate(FEW, FEW_RIGHT, tokenize="none", lowercase=True)
    assert tuple(report.scores) == METRICS
    assert report.scores["bleu"] == bleu(FEW, FEW_RIGHT, tokenize="none", lowercase=True)
    assert report["exact_match"] == 0.5
    assert report["token_error_rate"] == pytest.approx(1 / 10)
    assert report.num_items == 2


def test_the_table_aligns_names_and_digits() -> None:
    report = evaluate(FEW, FEW_RIGHT, ["exact_match", "bleu", "character_error_rate"], tokenize="none")
    signature = report.scores["bleu"].signature
    assert str(report).splitlines() == [
        "exact match           50.00 %",
        f"BLEU                  53.90    {signature}",
        "character error rate   9.38 %",
        "outputs: 2",
    ]


def test_the_report_is_json() -> None:
    plain = json.loads(json.dumps(evaluate(FEW, FEW_RIGHT).to_dict()))
    assert plain["num_items"] == 2
    assert plain["scores"]["exact_match"]["value"] == 0.5
    assert plain["scores"]["bleu"]["signature"].startswith("nrefs:var|")


@pytest.mark.parametrize(
    ("metrics", "received"), [(["bleu", "rouge"], r"\['rouge'\]"), ([], r"\[\]"), (["BLEU"], r"\['BLEU'\]")]
)
def test_unknown_metrics_are_named(metrics: list[str], received: str) -> None:
    with pytest.raises(ValueError, match=f"must name some of bleu, .* Received: {received}"):
        evaluate(ANSWERS, RIGHT, metrics)


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (Score(name="BLEU", value=41.024, signature="nrefs:1|tok:none"), "BLEU 41.02 (nrefs:1|tok:none)"),
        (Score(name="BLEU", value=41.0, details="71.0/47.5"), "BLEU 41.00"),
        (Score(name="exact match", value=0.99456, is_fraction=True), "exact match 99.46 %"),
        (Score(name="token error rate", value=1.5, is_fraction=True), "token error rate 150.00 %"),
    ],
)
def test_scores_print_with_unit_and_signature(score: Score, text: str) -> None:
    assert str(score) == text
