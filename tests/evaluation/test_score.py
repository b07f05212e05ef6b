import pytest

from keras_transformer.evaluation.translation_quality import Score


@pytest.mark.parametrize(
    ("score", "text"),
    [
        (Score(name="BLEU", value=41.024, signature="nrefs:1|tok:none"), "BLEU 41.02 (nrefs:1|tok:none)"),
        (Score(name="BLEU", value=0.0), "BLEU 0.00"),
        (Score(name="exact match", value=0.99456, is_fraction=True), "exact match 99.46 %"),
        (Score(name="token error rate", value=1.5, is_fraction=True), "token error rate 150.00 %"),
    ],
)
def test_scores_print_with_unit_and_signature(score: Score, text: str) -> None:
    assert str(score) == text


def test_details_are_kept_and_not_printed() -> None:
    score = Score(name="BLEU", value=41.0, details="71.0/47.5")
    assert score.details not in str(score)
