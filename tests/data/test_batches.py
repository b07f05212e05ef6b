import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data.batches import (
    bucket_ends,
    check_bucket_boundaries,
    cut_batches,
    default_bucket_boundaries,
)


@pytest.mark.parametrize(
    ("max_length", "coarse", "boundaries"),
    [
        (3, False, (3,)),
        (8, False, (4, 5, 6, 7, 8)),
        (19, False, (*range(4, 18), 19)),
        (19, True, (8, 10, 13, 17, 19)),
        (10, True, (8, 10)),
    ],
)
def test_default_boundaries(max_length: int, coarse: bool, boundaries: tuple[int, ...]) -> None:
    assert default_bucket_boundaries(max_length, coarse=coarse) == boundaries


@given(st.integers(1, 5000), st.booleans())
def test_default_boundaries_increase_up_to_the_longest(max_length: int, coarse: bool) -> None:
    boundaries = default_bucket_boundaries(max_length, coarse=coarse)
    assert check_bucket_boundaries(boundaries, max_length) == boundaries
    assert boundaries[-1] == max_length


def test_adds_a_bucket_for_longer_pairs() -> None:
    assert check_bucket_boundaries([4, 9], 11) == (4, 9, 11)
    assert check_bucket_boundaries([4, 9], 9) == check_bucket_boundaries([4, 9], 5) == (4, 9)


@pytest.mark.parametrize("boundaries", [[], [0, 4], [4, 4], [5, 3]])
def test_boundaries_out_of_order(boundaries: list[int]) -> None:
    message = f"positive and increasing. Received: bucket_boundaries={boundaries}".replace("[", r"\[")
    with pytest.raises(ValueError, match=message):
        check_bucket_boundaries(boundaries, 9)


def test_bucket_ends() -> None:
    np.testing.assert_array_equal(bucket_ends(np.array([1, 5, 6, 9, 5]), (5, 9)), [5, 5, 9, 9, 5])


@pytest.mark.parametrize(
    ("ends", "splits"),
    [
        ([3, 3, 3, 3, 3], [0, 4, 5]),
        ([12], [0, 1]),
        ([4, 4, 4, 4, 6, 6, 6], [0, 3, 5, 7]),  # the fourth pair goes with those of 6
        ([2, 12, 12], [0, 1, 2, 3]),
    ],
)
def test_cut_batches_of_12_tokens(ends: list[int], splits: list[int]) -> None:
    np.testing.assert_array_equal(cut_batches(np.array(ends), 12), splits)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=200), st.integers(30, 300))
def test_batches_are_full_and_within_the_budget(ends: list[int], tokens_per_batch: int) -> None:
    ends.sort()
    splits = cut_batches(np.array(ends), tokens_per_batch).tolist()
    assert (splits[0], splits[-1]) == (0, len(ends))
    for start, end in itertools.pairwise(splits):
        assert end > start
        assert (end - start) * ends[end - 1] <= tokens_per_batch
        assert end == len(ends) or (end + 1 - start) * ends[end] > tokens_per_batch


def test_budget_below_the_longest_pair() -> None:
    with pytest.raises(ValueError, match="Received: tokens_per_batch=8, longest=9 tokens"):
        cut_batches(np.array([4, 9]), 8)
