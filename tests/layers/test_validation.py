import re
from typing import Any

import pytest

from keras_transformer.layers.validation import check_heads, check_positive, check_rates, known_width


def test_positive_sizes_pass() -> None:
    check_positive(num_heads=1, key_dim=13)


@pytest.mark.parametrize("size", [0, -3])
def test_sizes_not_above_zero(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^`key_dim` must be above zero\. Received: key_dim={size}\.$"):
        check_positive(num_heads=2, key_dim=size)


@pytest.mark.parametrize("size", [2.0, "8", None, True])
def test_sizes_that_are_no_integers(size: Any) -> None:
    message = f"`key_dim` must be an integer. Received: key_dim={size!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        check_positive(key_dim=size)


def test_rates_pass() -> None:
    check_rates(dropout=0, attention_dropout=0.0, intermediate_dropout=0.999)


@pytest.mark.parametrize("rate", [-0.1, 1, 1.0, 1.5, float("nan")])
def test_rates_out_of_range(rate: float) -> None:
    message = f"`dropout` must be at least 0 and below 1. Received: dropout={rate}."
    with pytest.raises(ValueError, match=re.escape(message)):
        check_rates(dropout=rate)


@pytest.mark.parametrize("rate", ["0.1", None])
def test_rates_that_are_no_numbers(rate: Any) -> None:
    message = f"`dropout` must be a number. Received: dropout={rate!r}."
    with pytest.raises(TypeError, match=re.escape(message)):
        check_rates(dropout=rate)


@pytest.mark.parametrize(("num_heads", "hidden_dim"), [(1, 7), (7, 7), (8, 512)])
def test_heads_that_divide(num_heads: int, hidden_dim: int) -> None:
    check_heads(num_heads, hidden_dim)


@pytest.mark.parametrize(("num_heads", "hidden_dim"), [(3, 8), (7, 512), (16, 8)])
def test_heads_that_do_not_divide(num_heads: int, hidden_dim: int) -> None:
    message = (
        f"`num_heads` must divide `hidden_dim`. Received: num_heads={num_heads}, hidden_dim={hidden_dim}."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        check_heads(num_heads, hidden_dim)


def test_known_width() -> None:
    assert known_width(query=(None, None, 13)) == 13


def test_unknown_width() -> None:
    message = "The last axis of `query` must have a known size. Received: shape=(2, 3, None)."
    with pytest.raises(ValueError, match=re.escape(message)):
        known_width(query=(2, 3, None))
