"""Splits and mixtures of pairs."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.data import mix_pairs, split_pairs
from keras_transformer.errors import InputError

PAIRS = [(f"s{i}", f"t{i}") for i in range(101)]


@pytest.mark.parametrize(
    ("size", "count"),
    [({"validation_count": 7}, 7), ({"validation_fraction": 0.1}, 10), ({"validation_fraction": 1e-9}, 1)],
)
def test_sizes(size: dict[str, float], count: int) -> None:
    train, validation = split_pairs(PAIRS, **size)
    assert len(validation) == count
    assert sorted(train + validation) == sorted(PAIRS)


def test_keeps_the_order() -> None:
    train, validation = split_pairs(PAIRS, validation_count=30)
    assert train == [pair for pair in PAIRS if pair in train]
    assert validation == [pair for pair in PAIRS if pair in validation]


def test_same_seed_same_split() -> None:
    splits = [split_pairs(PAIRS, validation_count=9, seed=seed)[1] for seed in (5, 5, 6)]
    assert splits[0] == splits[1] != splits[2]


def test_the_split_of_seed_0_stays() -> None:
    """A change would make old validation sets training data of resumed runs."""
    assert [source for source, _ in split_pairs(PAIRS, validation_count=3)[1]] == ["s8", "s11", "s23"]


@given(st.lists(st.integers(0, 9), min_size=2).filter(lambda drawn: len(set(drawn)) > 1), st.integers(0, 99))
def test_same_sources_stay_together(drawn: list[int], seed: int) -> None:
    pairs = [(str(number), f"t{i}") for i, number in enumerate(drawn)]
    train, validation = split_pairs(pairs, validation_count=1, seed=seed)
    assert len(train) + len(validation) == len(pairs)
    assert not {source for source, _ in train} & {source for source, _ in validation}


def test_labelled_texts_may_be_a_tuple() -> None:
    examples = [("a", ("x",)), ("b", ("y", "z")), ("c", ())]
    assert split_pairs(tuple(examples), validation_count=1) == split_pairs(examples, validation_count=1)
    # As JSON has them.
    lists = [[[*source] if isinstance(source, tuple) else source, [*labels]] for source, labels in examples]
    assert [len(part) for part in split_pairs(lists, validation_count=1)] == [
        len(part) for part in split_pairs(examples, validation_count=1)
    ]


@pytest.mark.parametrize("sizes", [{}, {"validation_fraction": 0.5, "validation_count": 3}])
def test_one_size_must_be_given(sizes: dict[str, float]) -> None:
    received = f"validation_fraction={sizes.get('validation_fraction')}, validation_count="
    with pytest.raises(ValueError, match=f"Give one of.*{received}"):
        split_pairs(PAIRS, **sizes)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5])
def test_fraction_out_of_range(fraction: float) -> None:
    with pytest.raises(ValueError, match=f"between 0 and 1. Received: validation_fraction={fraction}"):
        split_pairs(PAIRS, validation_fraction=fraction)


def test_count_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"at least 1\. Received: validation_count=0"):
        split_pairs(PAIRS, validation_count=0)


@pytest.mark.parametrize("pairs", [PAIRS[:1], [("same", "a"), ("same", "b")], []])
def test_nothing_left_to_train_on(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(InputError, match=f"left to train on. Received: {len(pairs)} pairs, 1 of them"):
        split_pairs(pairs, validation_count=1)


@pytest.mark.parametrize("seed", range(7))
def test_a_source_of_many_pairs_is_not_held_out_for_a_few(seed: int) -> None:
    pairs = [("yes", str(number)) for number in range(90)] + [(str(number), "x") for number in range(10)]
    training, validation = split_pairs(pairs, validation_count=5, seed=seed)
    assert (len(training), len(validation)) == (95, 5)


def test_the_rarest_source_is_held_out_where_all_are_of_too_many_pairs() -> None:
    pairs = [("a", str(number)) for number in range(7)] + [("b", str(number)) for number in range(4)]
    training, validation = split_pairs(pairs, validation_count=2)
    assert {source for source, _ in validation} == {"b"}
    assert len(training) == 7


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
