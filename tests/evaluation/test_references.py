import numpy as np
import pytest

from keras_transformer.evaluation.error_rates import references_of_each


def test_one_reference_and_several_may_be_mixed() -> None:
    assert references_of_each(["x", "y"], ["a", ["b", "c"]]) == [("a",), ("b", "c")]


def test_tuples_are_references_too() -> None:
    assert references_of_each(("x",), (("a", "b"),)) == [("a", "b")]


def test_different_numbers_are_named() -> None:
    with pytest.raises(ValueError, match="Received: 1 references for 2 hypotheses"):
        references_of_each(["x", "y"], ["a"])


def test_no_hypotheses_are_named() -> None:
    with pytest.raises(ValueError, match="Received: 0 hypotheses"):
        references_of_each([], [])


def test_an_item_without_reference_is_named() -> None:
    with pytest.raises(ValueError, match=r"Received: references\[1\]=\[\]"):
        references_of_each(["x", "y"], ["a", []])


def test_a_string_is_not_a_list_of_strings() -> None:
    with pytest.raises(
        TypeError, match=r"`hypotheses` must be a list of strings\. Received one string: 'xy'"
    ):
        references_of_each("xy", ["a", "b"])
    with pytest.raises(
        TypeError, match=r"`references` must be a list of strings\. Received one string: 'ab'"
    ):
        references_of_each(["x", "y"], "ab")


def test_what_is_no_text_is_named() -> None:
    with pytest.raises(
        TypeError, match=r"`hypotheses` must be strings; bytes.* Received: b'a' of type bytes"
    ):
        references_of_each([b"a"], ["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"`references` must be strings.* Received: None of type NoneType"):
        references_of_each(["a"], [["a", None]])  # type: ignore[list-item]


def test_arrays_are_lists() -> None:
    assert references_of_each(np.array(["x", "y"]), np.array(["a", "b"])) == [("a",), ("b",)]
