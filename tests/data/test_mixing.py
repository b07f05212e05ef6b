from collections import Counter

import pytest

from keras_transformer.data import mix_pairs

SMALL = [(f"s{number}", "s") for number in range(10)]
LARGE = [(f"l{number}", "l") for number in range(1000)]


def test_weights_are_how_often() -> None:
    counts = Counter(mix_pairs([(SMALL, 3), (LARGE, 0.25)]))
    assert [counts[pair] for pair in SMALL] == [3] * 10
    assert sum(counts[pair] for pair in LARGE) == 250
    assert max(counts[pair] for pair in LARGE) == 1


def test_a_fraction_is_drawn_on_top_of_the_whole() -> None:
    counts = Counter(mix_pairs([(LARGE, 1.5)]))
    assert Counter(counts[pair] for pair in LARGE) == {1: 500, 2: 500}


def test_the_draw_is_that_of_the_seed() -> None:
    assert mix_pairs([(LARGE, 0.5)], seed=1) == mix_pairs([(LARGE, 0.5)], seed=1)
    assert mix_pairs([(LARGE, 0.5)], seed=1) != mix_pairs([(LARGE, 0.5)], seed=2)
    assert mix_pairs([(LARGE, 0.0)]) == []


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf")])
def test_a_wrong_weight(weight: float) -> None:
    with pytest.raises(ValueError, match=f"Received: weight={weight}"):
        mix_pairs([(SMALL, weight)])
