from collections.abc import Callable

import pytest

from keras_transformer.evaluation.error_rates import (
    character_error_rate,
    exact_match,
    token_error_rate,
    word_error_rate,
)

# Pronunciations of CMUdict: some words have several.
PHONES = ["T AH M EY T OW", "K AE T", "D AO G Z"]
RIGHT = [["T AH M AA T OW", "T AH M EY T OW"], "K AA T", ["D AA G", "D AO G"]]


def test_a_word_is_right_when_it_equals_any_reference() -> None:
    assert word_error_rate(PHONES, RIGHT) == pytest.approx(2 / 3)
    assert word_error_rate(PHONES, RIGHT) == pytest.approx(1 - exact_match(PHONES, RIGHT))


def test_the_rate_is_edits_to_the_closest_reference_over_its_length() -> None:
    # 0 of 6, 1 of 3, 1 of 3 phones.
    assert token_error_rate(PHONES, RIGHT) == pytest.approx(2 / 12)


def test_lengths_are_summed_before_the_division() -> None:
    assert token_error_rate(["a", "b c d x"], ["z", "b c d e"]) == pytest.approx(2 / 5)


def test_a_tie_is_won_by_the_first_reference() -> None:
    assert token_error_rate(["a b"], [["a", "a b c"]]) == pytest.approx(1 / 1)
    assert token_error_rate(["a b"], [["a b c", "a"]]) == pytest.approx(1 / 3)


def test_more_references_never_make_more_edits() -> None:
    one = token_error_rate(PHONES, [item if isinstance(item, str) else item[0] for item in RIGHT])
    assert token_error_rate(PHONES, RIGHT) <= one


def test_long_answers_may_have_more_errors_than_the_reference_has_tokens() -> None:
    assert token_error_rate(["a b c d"], ["a"]) == 3.0


def test_empty_answers_lose_every_token() -> None:
    assert token_error_rate(["", ""], ["a b", "c"]) == 1.0
    assert word_error_rate([""], ["a"]) == 1.0


def test_one_empty_reference_among_others_counts_its_insertions() -> None:
    assert token_error_rate(["a", "b c"], ["", "b c"]) == pytest.approx(1 / 2)


def test_all_references_empty_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"at least one token\. Received: 2 items"):
        token_error_rate(["a", ""], ["", " "])


def test_characters_include_spaces() -> None:
    assert character_error_rate(["2023-03-04"], ["2023-03-03"]) == pytest.approx(0.1)
    assert character_error_rate(["ab"], ["a b"]) == pytest.approx(1 / 3)
    assert token_error_rate(["ab"], ["a b"], split=list) == pytest.approx(1 / 3)


@pytest.mark.parametrize("measure", [word_error_rate, token_error_rate, character_error_rate])
def test_different_lengths_are_an_error(measure: Callable[[list[str], list[str]], float]) -> None:
    with pytest.raises(ValueError, match="Received: 3 references for 1 hypotheses"):
        measure(["a"], ["a", "b", "c"])
