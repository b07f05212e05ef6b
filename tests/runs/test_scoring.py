"""Which metrics are measured for what."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keras_transformer as kt
from keras_transformer.evaluation import EvaluationReport
from keras_transformer.runs import RunConfig, RunKind
from keras_transformer.tasks import Classification, Translation


class Echo:
    """Answers with the source in capitals."""

    def translate_with_scores(
        self, texts: list[str], batch_size: int, progress: Callable[[int], None] | None
    ) -> list[Translation]:
        return [Translation(text.upper(), -1.0) for text in texts]


def score(translator: Any, pairs: Any, *, unique: bool = False, **options: Any) -> EvaluationReport:
    """Score what a run of translation would score."""
    return RunKind.of(RunConfig.default(**options)).score(translator, pairs, unique=unique)[0]


def test_texts_without_words_have_no_bleu() -> None:
    report = score(Echo(), [("a", "A"), ("b", "X")])
    assert report["exact_match"] == 0.5
    assert "BLEU" not in str(report)


def test_sentences_have_bleu_with_its_signature() -> None:
    report = str(score(Echo(), [("a b c d e", "A B C D E")], bleu_tokenize="none"))
    assert "100.00" in report
    assert "tok:none" in report


def test_any_target_of_a_source_is_right() -> None:
    report = score(Echo(), [("a", "X"), ("a", "A")], unique=True)
    assert report.num_items == 1
    assert report["exact_match"] == 1.0
    assert score(Echo(), [("a", "X"), ("a", "A")])["exact_match"] == 0.5


def test_equal_examples_count_once() -> None:
    class Classifier:
        def classify(self, texts: list[str], **options: Any) -> list[Classification]:
            return [Classification("x", 0.9, ("x",), {"x": 0.9, "y": 0.1}) for _ in texts]

    kind = RunKind.of(RunConfig.default(task="classify", pairs="a.csv", multi_label=True))
    examples = [("a", ["x"]), ("a", ["x"]), ("a", ["y"])]
    for unique, num_items in ((True, 2), (False, 3)):
        report, outputs = kind.score(Classifier(), examples, unique=unique)
        assert (report.num_items, len(outputs)) == (num_items, num_items)


@pytest.mark.slow
def test_references_that_cannot_be_written_are_counted(
    trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    translator = kt.Translator.load(trained / "runs/tiny")
    with caplog.at_level(logging.WARNING, "keras_transformer"):
        score(translator, [("w1ab", "W1AB"), ("w1ab", "Wüß")])
    assert "1 of 2 references cannot be written with the target vocabulary" in caplog.text
