"""Bounds of length from the lengths of sources, by hand."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.constraints import (
    check_bounds,
    check_max_length,
    longest_lengths,
    shortest_lengths,
)

LENGTHS = np.array([1, 2, 5, 10, 40], "int32")


@pytest.mark.parametrize(
    ("min_length", "ratio", "expected"),
    [
        (3, 0.0, [3, 3, 3, 3, 3]),
        (0, 0.5, [1, 1, 3, 5, 20]),  # 2.5 is rounded up
        (4, 0.5, [4, 4, 4, 5, 20]),
        (0, 1.1, [2, 3, 6, 11, 44]),  # 1.1 * 10 is 11, though not in float32
    ],
)
def test_the_shortest_length(min_length: int, ratio: float, expected: list[int]) -> None:
    lengths = ops.convert_to_numpy(shortest_lengths(ops.convert_to_tensor(LENGTHS), min_length, ratio))
    np.testing.assert_array_equal(lengths, expected)
    assert lengths.dtype == np.int32


@pytest.mark.parametrize(
    ("ratio", "offset", "expected"),
    [
        (None, 0, [30, 30, 30, 30, 30]),
        (0.5, 0, [1, 1, 2, 5, 20]),  # 2.5 is rounded down, and one token is always allowed
        (1.5, 3, [4, 6, 10, 18, 30]),
        (0.7, 0, [1, 1, 3, 7, 28]),  # 0.7 * 10 is 7, though not in float32
    ],
)
def test_the_longest_length(ratio: float | None, offset: int, expected: list[int]) -> None:
    lengths = ops.convert_to_numpy(longest_lengths(ops.convert_to_tensor(LENGTHS), 30, ratio, offset))
    np.testing.assert_array_equal(lengths, expected)
    assert lengths.dtype == np.int32


def test_bounds_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Received: min_length_ratio=2\.0, max_length_ratio=1\.5\."):
        check_bounds(2.0, 1.5, 0)
    check_bounds(1.5, 1.5, 0)


def test_an_offset_to_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Received: max_length_offset=5, max_length_ratio=None\."):
        check_bounds(0.0, None, 5)


def test_a_maximum_below_the_minimum_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Received: min_length=5, max_length=4\."):
        check_max_length(5, 4)
    check_max_length(4, 4)
