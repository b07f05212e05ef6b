import logging

import pytest

from keras_transformer.data.pairs import check_pairs, drop_empty_pairs, report_empty
from keras_transformer.errors import InputError


def test_keeps_pairs_with_text_in_order(caplog: pytest.LogCaptureFixture) -> None:
    pairs = [("b", "B"), (" a ", "A"), ("b", "B")]
    with caplog.at_level(logging.WARNING):
        assert drop_empty_pairs(pairs, "here") == pairs
    assert not caplog.records


def test_drops_and_counts_pairs_without_text(caplog: pytest.LogCaptureFixture) -> None:
    pairs = [("a", "A"), ("", "B"), ("c", " \t\u3000"), ("", "")]
    with caplog.at_level(logging.WARNING):
        assert drop_empty_pairs(pairs, "x.tsv") == [("a", "A")]
    message = "Dropped 3 of 4 pairs (75.0 %) of x.tsv: empty."
    hint = " That is more than 5 %: do the two sides belong together?"
    assert caplog.messages == [message + hint]


def test_a_few_pairs_without_text_are_no_question(caplog: pytest.LogCaptureFixture) -> None:
    report_empty(5, 100, "x.tsv")
    report_empty(0, 100, "x.tsv")
    assert caplog.messages == ["Dropped 5 of 100 pairs (5.0 %) of x.tsv: empty."]


@pytest.mark.parametrize("pairs", [[], [("", "a")], [(" ", "a"), ("a", "")]])
def test_no_pair_left(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(InputError, match=rf"No pair of x.tsv has text on both sides.* {len(pairs)} pairs"):
        drop_empty_pairs(pairs, "x.tsv")


@pytest.mark.parametrize("wrong", [("a", float("nan")), ("a", None), ("a", "b", "c"), "ab", ("a",)])
def test_what_is_no_pair_is_named(wrong: object) -> None:
    check_pairs([("a", "b"), ["c", b"d"]])
    with pytest.raises(TypeError, match=r"Each pair must be two strings\. Received: pairs\[1\]="):
        check_pairs([("a", "b"), wrong])
