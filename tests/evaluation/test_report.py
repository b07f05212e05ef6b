import json

import pytest

from keras_transformer.evaluation.error_rates import exact_match
from keras_transformer.evaluation.report import METRICS, evaluate
from keras_transformer.evaluation.translation_quality import bleu, chrf

ANSWERS = ["the cat sat on the mat .", "a dog runs"]
RIGHT = [["the cat sat on a mat .", "a cat"], "a dog runs"]


def test_every_metric_is_measured_as_its_function_does() -> None:
    report = evaluate(ANSWERS, RIGHT, tokenize="none", lowercase=True)
    assert tuple(report.scores) == METRICS
    assert report.scores["bleu"] == bleu(ANSWERS, RIGHT, tokenize="none", lowercase=True)
    assert report.scores["chrf"] == chrf(ANSWERS, RIGHT, lowercase=True)
    assert report["exact_match"] == exact_match(ANSWERS, RIGHT) == 0.5
    assert report["token_error_rate"] == pytest.approx(1 / 10)
    assert report.num_items == 2


def test_the_table_aligns_names_and_digits() -> None:
    report = evaluate(ANSWERS, RIGHT, ["exact_match", "bleu", "character_error_rate"], tokenize="none")
    signature = report.scores["bleu"].signature
    assert str(report).splitlines() == [
        "exact match           50.00 %",
        f"BLEU                  53.90    {signature}",
        "character error rate   9.38 %",
        "answers: 2",
    ]


def test_the_report_is_json() -> None:
    plain = json.loads(json.dumps(evaluate(ANSWERS, RIGHT).to_dict()))
    assert plain["num_items"] == 2
    assert plain["scores"]["word_error_rate"]["value"] == 0.5
    assert plain["scores"]["bleu"]["signature"].startswith("nrefs:var|")


@pytest.mark.parametrize(
    ("metrics", "received"), [(["bleu", "rouge"], r"\['rouge'\]"), ([], r"\[\]"), (["BLEU"], r"\['BLEU'\]")]
)
def test_unknown_metrics_are_named(metrics: list[str], received: str) -> None:
    with pytest.raises(ValueError, match=f"must name some of bleu, .* Received: {received}"):
        evaluate(ANSWERS, RIGHT, metrics)


def test_different_lengths_are_an_error() -> None:
    with pytest.raises(ValueError, match="Received: 1 references for 2 hypotheses"):
        evaluate(ANSWERS, RIGHT[:1])
