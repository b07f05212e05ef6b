"""Batches by length, answers in order."""

import pytest

from keras_transformer.decoding.text_translator import (
    BatchAnswers,
    TruncationWarning,
    check_texts,
    in_batches,
)


def shout(texts: list[str], places: list[int]) -> BatchAnswers:
    return BatchAnswers([text.upper() for text in texts])


def test_answers_stand_where_their_texts_stood() -> None:
    texts = ["ccc", "a", "bb", "dddd", ""]
    assert in_batches(texts, shout, len, 2, None) == ["CCC", "A", "BB", "DDDD", ""]
    assert in_batches([], shout, len, 2, None) == []


def test_the_longest_come_first_and_progress_is_told() -> None:
    seen, done = [], []
    in_batches(["a", "ccc", "bb"], lambda *batch: seen.append(batch) or shout(*batch), len, 2, done.append)
    assert seen == [(["ccc", "bb"], [1, 2]), (["a"], [0])]
    assert done == [2, 1]


def test_one_warning_counts_what_was_cut() -> None:
    with pytest.warns(TruncationWarning, match=r"^2 of 3 were longer") as caught:
        in_batches(["a", "b", "c"], lambda batch, _: BatchAnswers(batch, int(batch != ["b"])), len, 1, None)
    assert len(caught) == 1
    with pytest.warns(TruncationWarning, match=r"^1 of 1 .* limits \(max_source_length=4\) and were cut off"):
        in_batches(["a"], lambda batch, _: BatchAnswers(batch, 1, "max_source_length=4"), len, 1, None)


def test_an_answer_for_each_is_needed() -> None:
    with pytest.raises(ValueError, match="shorter"):
        in_batches(["a", "b"], lambda batch, _: BatchAnswers(batch[:1]), len, 2, None)


def test_a_wrong_batch_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`batch_size` must be above zero\. Received: batch_size=-1\."):
        in_batches(["a"], shout, len, -1, None)


def test_generators_are_taken_and_single_strings_are_not() -> None:
    assert check_texts(letter for letter in "abc") == ["a", "b", "c"]
    for wrong in ("abc", b"abc", None, 3):
        with pytest.raises(TypeError, match=rf"must be several strings.*Received: sources={wrong!r}"):
            check_texts(wrong, "sources")
    with pytest.raises(TypeError, match=r"`texts` must hold strings\. Received: texts\[1\]=3\."):
        check_texts(["a", 3])
