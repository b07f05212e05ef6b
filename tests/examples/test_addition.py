"""The sums of the addition recipe, by Python's integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def example(load_example: Callable[[str], Any]) -> Any:
    return load_example("recipes/addition")


def number(digits: Any) -> int:
    """Return the number whose digits are tokens, the last digit first; other tokens are no digits."""
    return int("".join(str(digit - 1) for digit in digits[::-1] if 1 <= digit <= 10))


@pytest.mark.parametrize("lengths", [(1, 5), (15, 15)])
def test_tags_are_the_digits_of_the_sum(example: Any, lengths: tuple[int, int]) -> None:
    tokens, tags = example.make_sums(200, np.random.default_rng(0), *lengths)
    for row, tag in zip(tokens, tags, strict=True):
        first, second = row[::2], row[1::2] - example.END * (row[1::2] > 0)
        assert number(first) + number(second) == number(tag)
        num_digits = max(len(digits[(digits >= 1) & (digits <= 10)]) for digits in (first, second))
        assert lengths[0] <= num_digits <= lengths[1]
        # A digit of the sum for each column and one for the last carry, each at a token.
        assert (tag > 0).sum() == num_digits + 1
        assert (row[tag > 0] > 0).all()


@pytest.mark.slow
def test_training(example: Any) -> None:
    model = example.train(seed=0, num_steps=20, batch_size=8)
    assert example.exact_sums(model, num_digits=15, count=10) == 0.0
