"""Edit distances, rates of errors, and what counts as a reference."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.evaluation import evaluate
from keras_transformer.evaluation.error_rates import _edit_distance

short_texts = st.text(alphabet="abc", max_size=7)
# Pronunciations of CMUdict: some words have several.
PHONES = ["T AH M EY T OW", "K AE T", "D AO G Z"]
RIGHT = [["T AH M AA T OW", "T AH M EY T OW"], "K AA T", ["D AA G", "D AO G"]]


def rate(metric: str, hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    return evaluate(hypotheses, references, [metric])[metric]


@pytest.mark.parametrize(
    ("hypothesis", "reference", "edits"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("abc", "bcd", 2),
        ("月火", "月水", 1),
        ([3, 5, 7], [3, 7], 1),
        (["k", "ae", "t"], ("k", "ae", "t"), 0),
    ],
)
def test_known_distances(hypothesis: str, reference: str, edits: int) -> None:
    assert _edit_distance(hypothesis, reference) == edits


def recursive_distance(hypothesis: str, reference: str) -> int:
    """The definition, without a table."""
    if not hypothesis or not reference:
        return len(hypothesis) + len(reference)
    return min(
        recursive_distance(hypothesis[1:], reference) + 1,
        recursive_distance(hypothesis, reference[1:]) + 1,
        recursive_distance(hypothesis[1:], reference[1:]) + (hypothesis[0] != reference[0]),
    )


def test_the_distance_is_its_definition_for_all_short_strings() -> None:
    texts = ["".join(letters) for length in range(5) for letters in itertools.product("ab", repeat=length)]
    for one, other in itertools.product(texts, texts):
        assert _edit_distance(one, other) == recursive_distance(one, other)


@given(short_texts, short_texts, short_texts)
def test_the_distance_is_a_metric(one: str, two: str, three: str) -> None:
    assert (_edit_distance(one, two) == 0) == (one == two)
    assert _edit_distance(one, two) == _edit_distance(two, one)
    assert _edit_distance(one, three) <= _edit_distance(one, two) + _edit_distance(two, three)
    assert abs(len(one) - len(two)) <= _edit_distance(one, two) <= max(len(one), len(two))


@pytest.mark.parametrize(
    ("hypotheses", "references", "share"),
    [
        (["a"], ["a"], 1.0),
        (["a"], ["b"], 0.0),
        (["a"], ["abc"], 0.0),
        (["a", "b", "c", "d"], ["a", "b", "c", "x"], 0.75),
        (["a", "b"], [["x", "a"], ["x", "y"]], 0.5),
        (["A", " b", ""], ["a", "b", ""], 1 / 3),
        (("x",), (("a", "x"),), 1.0),
        (np.array(["x", "y"]), np.array(["x", "b"]), 0.5),
    ],
)
def test_share_of_exact_matches(
    hypotheses: Sequence[str], references: Sequence[str | Sequence[str]], share: float
) -> None:
    assert rate("exact_match", hypotheses, references) == pytest.approx(share)


def test_a_word_is_right_when_it_equals_any_reference() -> None:
    assert rate("exact_match", PHONES, RIGHT) == pytest.approx(1 / 3)


def test_the_rate_is_edits_to_the_closest_reference_over_its_length() -> None:
    # 0 of 6, 1 of 3, 1 of 3 phones.
    assert rate("token_error_rate", PHONES, RIGHT) == pytest.approx(2 / 12)
    one = rate("token_error_rate", PHONES, [item if isinstance(item, str) else item[0] for item in RIGHT])
    assert one > 2 / 12


def test_lengths_are_summed_before_the_division() -> None:
    assert rate("token_error_rate", ["a", "b c d x"], ["z", "b c d e"]) == pytest.approx(2 / 5)


def test_a_tie_is_won_by_the_first_reference() -> None:
    assert rate("token_error_rate", ["a b"], [["a", "a b c"]]) == pytest.approx(1 / 1)
    assert rate("token_error_rate", ["a b"], [["a b c", "a"]]) == pytest.approx(1 / 3)


def test_rates_of_long_and_of_empty_hypotheses() -> None:
    assert rate("token_error_rate", ["a b c d"], ["a"]) == 3.0
    assert rate("token_error_rate", ["", ""], ["a b", "c"]) == 1.0
    assert rate("token_error_rate", ["a", "b c"], ["", "b c"]) == pytest.approx(1 / 2)


def test_all_references_empty_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"at least one token\. Received: 2 items"):
        rate("token_error_rate", ["a", ""], ["", " "])


def test_characters_include_spaces() -> None:
    assert rate("character_error_rate", ["2023-03-04"], ["2023-03-03"]) == pytest.approx(0.1)
    assert rate("character_error_rate", ["ab"], ["a b"]) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("hypotheses", "references", "error", "message"),
    [
        (["x", "y"], ["a"], ValueError, "Received: 1 references for 2 hypotheses"),
        ([], [], ValueError, "Received: 0 hypotheses"),
        (["x", "y"], ["a", []], ValueError, r"Received: references\[1\]=\[\]"),
        ("xy", ["a", "b"], TypeError, r"`hypotheses` must be a list of strings\. Received one string: 'xy'"),
        (["x", "y"], "ab", TypeError, r"`references` must be a list of strings\. Received one string: 'ab'"),
        ([b"a"], ["a"], TypeError, r"`hypotheses` must be strings; bytes.* Received: b'a' of type bytes"),
        (["a"], [["a", None]], TypeError, r"`references` must be strings.* Received: None of type NoneType"),
    ],
)
def test_wrong_references_are_named(
    hypotheses: list[str], references: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        evaluate(hypotheses, references)
