"""Numbers out of range are refused with their names and values."""

from typing import Any

import pytest

from keras_transformer.decoding.validation import check_number


@pytest.mark.parametrize("value", [0, 0.5, 3])
def test_numbers_pass(value: Any) -> None:
    check_number("width", value)


@pytest.mark.parametrize("value", ["1", None, True])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=rf"`width` must be a number\. Received: width={value!r}\."):
        check_number("width", value)


def test_a_fraction_is_no_whole_number() -> None:
    with pytest.raises(TypeError, match=r"`width` must be an integer\. Received: width=1\.5\."):
        check_number("width", 1.5, whole=True)


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan")])
def test_numbers_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=rf"finite and at least zero\. Received: width={value!r}\."):
        check_number("width", value)


def test_zero_can_be_refused() -> None:
    with pytest.raises(ValueError, match=r"finite and above zero\. Received: width=0\."):
        check_number("width", 0, above_zero=True)
