import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.evaluation.error_rates import edit_distance

short_texts = st.text(alphabet="abc", max_size=7)


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
    assert edit_distance(hypothesis, reference) == edits


def recursive_distance(hypothesis: str, reference: str) -> int:
    """The definition, without a table."""
    if not hypothesis or not reference:
        return len(hypothesis) + len(reference)
    return min(
        recursive_distance(hypothesis[1:], reference) + 1,
        recursive_distance(hypothesis, reference[1:]) + 1,
        recursive_distance(hypothesis[1:], reference[1:]) + (hypothesis[0] != reference[0]),
    )


def test_it_is_the_definition_for_all_short_strings() -> None:
    texts = ["".join(letters) for length in range(5) for letters in itertools.product("ab", repeat=length)]
    for one, other in itertools.product(texts, texts):
        assert edit_distance(one, other) == recursive_distance(one, other)


@given(short_texts, short_texts, short_texts)
def test_it_is_a_metric(one: str, two: str, three: str) -> None:
    assert (edit_distance(one, two) == 0) == (one == two)
    assert edit_distance(one, two) == edit_distance(two, one)
    assert edit_distance(one, three) <= edit_distance(one, two) + edit_distance(two, three)
    assert abs(len(one) - len(two)) <= edit_distance(one, two) <= max(len(one), len(two))
