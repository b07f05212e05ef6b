"""Scores of labels are those of scikit-learn, those of tags the ones that CoNLL's script defines."""

import json

import numpy as np
import pytest

from keras_transformer.evaluation import LabelReport, evaluate_labels, evaluate_tags

NAMES = ["a", "b", "c", "never"]


def drawn(seed: int, size: int = 300) -> list[str]:
    return np.random.default_rng(seed).choice(NAMES[:3], size, p=[0.6, 0.3, 0.1]).tolist()


def test_single_labels_are_scored_as_scikit_learn_does() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    predicted, references = drawn(1), drawn(2)
    report = evaluate_labels(predicted, references, NAMES)
    assert report["accuracy"] == metrics.accuracy_score(references, predicted)
    wanted = metrics.precision_recall_fscore_support(references, predicted, labels=NAMES, zero_division=0)
    found = [(each.precision, each.recall, each.f1, each.support) for each in report.labels.values()]
    np.testing.assert_allclose(found, np.transpose(wanted))
    assert report["macro_f1"] == pytest.approx(np.mean(wanted[2]))
    assert report.confusion is not None
    np.testing.assert_array_equal(
        report.confusion, metrics.confusion_matrix(references, predicted, labels=NAMES)
    )


def test_several_labels_are_scored_as_scikit_learn_does() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    flags = np.random.default_rng(3).random((2, 200, 3)) < [0.5, 0.3, 0.05]
    predicted, references = ([[*np.array(NAMES[:3])[row]] for row in side.tolist()] for side in flags)
    report = evaluate_labels(predicted, references)
    assert report["accuracy"] == metrics.accuracy_score(flags[1], flags[0])
    for kind in ("micro", "macro"):
        wanted = metrics.f1_score(flags[1], flags[0], average=kind, zero_division=0)
        assert report[f"{kind}_f1"] == pytest.approx(wanted)
    assert report.confusion is None


# From the README and the tests of the package `seqeval`.
@pytest.mark.parametrize(
    ("references", "predicted", "f1"),
    [
        (["O O O B-MISC I-MISC I-MISC O"], ["O O B-MISC I-MISC I-MISC I-MISC O"], 0.0),
        (
            ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"],
            ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"],
            0.5,
        ),
        (["B-PER I-PER O"], ["I-PER I-PER O"], 1.0),
        (["B-PER I-PER O"], ["O O O"], 0.0),
        (["B-PER B-PER"], ["B-PER I-PER"], 0.0),
        (["B-PER O B-LOC"], ["B-PER O B-PER"], 0.5),
    ],
)
def test_spans(references: list[str], predicted: list[str], f1: float) -> None:
    report = evaluate_tags([row.split() for row in predicted], [row.split() for row in references])
    assert report["span_f1"] == f1


def test_kinds_of_spans() -> None:
    report = evaluate_tags([["B-PER", "O", "B-LOC"]], [["B-PER", "I-PER", "B-LOC"]])
    assert {kind: each.f1 for kind, each in report.labels.items()} == {"LOC": 1.0, "PER": 0.0}
    assert (report["span_f1"], report["macro_f1"]) == (0.5, 0.5)
    assert report["token_accuracy"] == pytest.approx(2 / 3)


def test_tags_without_spans_are_scored_one_by_one() -> None:
    report = evaluate_tags([["NOUN", "VERB"], ["NOUN"]], [["NOUN", "NOUN"], ["NOUN"]])
    assert report["token_accuracy"] == pytest.approx(2 / 3)
    assert report.labels["NOUN"].support == 3
    assert [*report.scores] == ["token_accuracy", "macro_f1"]


def test_the_table() -> None:
    report = evaluate_labels(["ham", "spam", "ham", "ham"], ["ham", "spam", "odd", "ham"])
    assert str(report).splitlines()[-9:] == [
        "label  precision  recall       F1  texts",
        "ham       66.7 %  100.0 %   80.0 %      2",
        "odd        0.0 %   0.0 %    0.0 %      1",
        "spam     100.0 %  100.0 %  100.0 %      1",
        "",
        "is \\ called  ham  odd  spam",
        "ham            2    0     0",
        "odd            1    0     0",
        "spam           0    0     1",
    ]
    assert json.loads(json.dumps(report.to_dict()))["confusion"] == [[2, 0, 0], [1, 0, 0], [0, 0, 1]]


def test_one_answer_for_all_is_told() -> None:
    report = evaluate_labels(["ham"] * 3, ["ham", "spam", "ham"])
    assert report.warning.startswith("All 3 outputs are 'ham'. Try more epochs")
    assert not evaluate_labels(["ham"] * 3, ["ham"] * 3).warning
    assert isinstance(report, LabelReport)


@pytest.mark.parametrize(
    ("predicted", "references", "error", "message"),
    [
        ([], [], ValueError, "Received: 0 and 0"),
        (["a"], ["a", "b"], ValueError, "Received: 1 and 2"),
        (["a"], [["a"]], TypeError, "both hold strings"),
        ([1], ["a"], TypeError, "`predicted` must hold"),
        (["a"], [float("nan")], TypeError, "`references` must hold"),
    ],
)
def test_wrong_labels(predicted: list, references: list, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate_labels(predicted, references)


def test_wrong_tags() -> None:
    with pytest.raises(ValueError, match=r"predicted\[0\] of 1, references\[0\] of 2"):
        evaluate_tags([["O"]], [["O", "O"]])
    with pytest.raises(ValueError, match=r"at least one tag. Received: 1 texts without"):
        evaluate_tags([[]], [[]])
