"""Which metrics are printed for what."""

from collections.abc import Callable

import pytest

from keras_transformer.decoding import Translation
from keras_transformer.runs.train import score


class Echo:
    """Answers with the source in capitals."""

    def translate_with_scores(
        self, texts: list[str], batch_size: int, progress: Callable[[int], None]
    ) -> list[Translation]:
        progress(len(texts))
        return [Translation(text.upper(), -1.0) for text in texts]


def test_texts_without_words_have_no_bleu(capsys: pytest.CaptureFixture[str]) -> None:
    report = score(Echo(), [("a", "A"), ("b", "X")], batch_size=2)
    assert report["exact_match"] == 0.5
    assert "BLEU" not in capsys.readouterr().out


def test_sentences_have_bleu_with_its_signature(capsys: pytest.CaptureFixture[str]) -> None:
    score(Echo(), [("a b c d e", "A B C D E")], batch_size=2, tokenize="none")
    output = capsys.readouterr().out
    assert "100.00" in output
    assert "tok:none" in output


def test_any_target_of_a_source_is_right() -> None:
    report = score(Echo(), [("a", "X"), ("a", "A")], batch_size=2, unique=True)
    assert report.num_items == 1
    assert report["exact_match"] == 1.0
